"""The kinds of objects that MLflow stores: what each becomes in the catalog, or why it is left out.

Source: the tables of MLflow 3.17. `docs/reference/mlflow-objects.md` has the same rows.
"""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class MlflowKind:
    """A kind of objects, by the noun for one of them, and the tables that hold these.

    `meaning` says what they become, or why they are left out.
    """

    noun: str
    tables: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class LeftOutKind(MlflowKind):
    """A kind that is left out. In a database the rows of its first table are counted.

    `since` is the first minor version that has them, as far as databases are read. `scope` is the
    column that says the workspace of a row; None where nothing is counted. `live` is the condition
    for rows that are not deleted. `listed` says whether a server tells their number in one request,
    and `registry` whether they belong to the model registry.
    """

    since: tuple[int, int] = (2, 18)
    scope: Literal["experiment_id", "workspace"] | None = "workspace"
    live: str = ""
    listed: bool = False
    registry: bool = False


PROMPT: Final = LeftOutKind(
    "prompt",
    ("registered_models",),
    "a text, which MLflow stores as a registered model",
    listed=True,
    registry=True,
)
TRACE: Final = LeftOutKind(
    "trace",
    (
        *("trace_info", "trace_tags", "trace_request_metadata", "trace_metrics"),
        *("spans", "span_metrics", "entity_associations"),
        *("sql_trace_metric_daily_rollups", "sql_span_cost_daily_rollups"),
        *("sql_assessment_daily_rollups", "sql_trace_rollup_rebuild_queue"),
    ),
    "the record of one application call, with its spans",
    scope="experiment_id",
    listed=True,
)
GENAI_DATASET: Final = LeftOutKind(
    "GenAI dataset",
    ("evaluation_datasets", "evaluation_dataset_records", "evaluation_dataset_tags"),
    "a set of questions and answers inside MLflow, without a name in other tools",
    since=(3, 4),
    listed=True,
)
WEBHOOK: Final = LeftOutKind(
    "webhook",
    ("webhooks", "webhook_events"),
    "a setting of the server",
    since=(3, 3),
    live="deleted_timestamp IS NULL",
    listed=True,
    registry=True,
)

LEFT_OUT: Final[tuple[LeftOutKind, ...]] = (
    PROMPT,
    TRACE,
    GENAI_DATASET,
    WEBHOOK,
    LeftOutKind(
        "earlier metric value",
        ("metrics",),
        "only the last value of a metric is on its model; the table is too large to count",
        scope=None,
    ),
    LeftOutKind(
        "scorer",
        ("scorers", "scorer_versions", "online_scoring_configs"),
        "code that judges traces",
        since=(3, 4),
        scope="experiment_id",
    ),
    LeftOutKind(
        "issue", ("issues",), "a finding about traces", since=(3, 11), scope="experiment_id"
    ),
    LeftOutKind(
        "label schema",
        ("label_schemas",),
        "a form for reviewers of traces",
        since=(3, 14),
        scope="experiment_id",
    ),
    LeftOutKind(
        "review queue",
        (
            *("review_queues", "review_queue_items", "review_queue_label_schemas"),
            "review_queue_users",
        ),
        "a work list of reviewers of traces",
        since=(3, 14),
        scope="experiment_id",
    ),
    LeftOutKind(
        "gateway endpoint",
        ("endpoints", "endpoint_bindings", "endpoint_model_mappings", "endpoint_tags"),
        "a route of MLflow's gateway to models of other providers",
        since=(3, 8),
    ),
    LeftOutKind(
        "gateway model", ("model_definitions",), "a model of another provider", since=(3, 8)
    ),
    LeftOutKind("gateway secret", ("secrets",), "a secret: counted, never read", since=(3, 8)),
    LeftOutKind(
        "guardrail",
        ("guardrails", "guardrail_configs"),
        "a setting of the gateway",
        since=(3, 12),
    ),
    LeftOutKind("gateway budget", ("budget_policies",), "a setting of the gateway", since=(3, 11)),
    LeftOutKind(
        "MCP server",
        (
            *("mcp_servers", "mcp_server_versions", "mcp_server_aliases", "mcp_server_tags"),
            *("mcp_server_version_tags", "mcp_access_endpoints"),
        ),
        "a tool of agents",
        since=(3, 15),
    ),
    LeftOutKind(
        "job",
        ("jobs", "job_locks", "scheduler_leases"),
        "background work of the server",
        since=(3, 5),
    ),
)
"""The kinds that are left out; first those that a server counts too."""

READ: Final[tuple[MlflowKind, ...]] = (
    MlflowKind("experiment", ("experiments", "experiment_tags"), "`mlModelGroup` of its runs"),
    MlflowKind(
        "run",
        ("runs", "params", "tags", "latest_metrics"),
        "`mlModel`; parameters, tags, and the last value of each metric",
    ),
    MlflowKind(
        "dataset of a run",
        ("datasets", "inputs", "input_tags"),
        "training or evaluation data of the run's model, if its source has a known location",
    ),
    MlflowKind(
        "logged model",
        ("logged_models", "logged_model_params", "logged_model_tags", "logged_model_metrics"),
        "part of its run's model; without a run, an `mlModel` of its own",
    ),
    MlflowKind(
        "registered model",
        ("registered_models", "registered_model_tags", "registered_model_aliases"),
        "`mlModelGroup` `registered:<name>` of its versions",
    ),
    MlflowKind(
        "version of a registered model",
        ("model_versions", "model_version_tags"),
        "`mlModel` `<name>_<version>`",
    ),
    MlflowKind(
        "assessment of a trace",
        ("assessments",),
        "feedback: part of a mean, which is a metric of the evaluation run that recorded the trace",
    ),
    MlflowKind("workspace", ("workspaces",), "part of the names of its entities"),
    MlflowKind(
        "revision of the schema", ("alembic_version",), "nothing; it selects how tables are read"
    ),
)
