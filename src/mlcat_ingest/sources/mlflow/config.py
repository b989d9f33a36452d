"""The configuration of the MLflow source, as the recipe spells it. Cheap to import."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field, model_validator

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES, Templates
from mlcat_ingest.recipe.connection import ConnectionConfig, Timeout
from mlcat_ingest.recipe.fields import (
    Duration,
    NotContent,
    PublicStr,
    RecipeModel,
    ServiceUrl,
    named,
    seconds_in,
)
from mlcat_ingest.recipe.values import Fabric, PatternFilter, RecipeUrl
from mlcat_ingest.sources.datasets import DatasetsConfig, KnownDatasets
from mlcat_ingest.sources.mlflow.values.assets import AssetsName
from mlcat_ingest.sources.mlflow.values.uris import (
    has_databricks_scheme,
    is_http,
    is_readable_database,
    is_unity_catalog,
    with_known_scheme,
)
from mlcat_ingest.sources.options import FeaturesConfig, OwnersConfig, check_compat

DEFAULT_TRACKING_URI = "http://127.0.0.1:5000"

TrackingUri = Annotated[RecipeUrl, AfterValidator(with_known_scheme)]
RunStatus = Literal["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]
ReaderName = Literal["auto", "rest", "database", "client"]
RunSelect = Literal["all", "with_model", "registered"]

_NAME: Final = re.compile("[a-z0-9-]+")
"""A workspace's name, as MLflow takes it: a pattern that is none of others."""


def _moment(text: str) -> str:
    if seconds_in(text) is None:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                "must be an ISO date or time (2026-01-31, 2026-01-31T08:00Z) "
                "or an age (30m, 12h, 7d, 4w)"
            ) from None
    return text


class RunsConfig(RecipeModel):
    """Runs that become models."""

    select: RunSelect = "all"
    """`all` runs; runs `with_model`, logged or registered; or only the source runs of `registered`
    model versions."""

    children: Literal["include", "collapse", "skip"] = "include"
    """Nested runs: `include` each as a model, `collapse` them into a count on their top-most parent
    (which reads the listing of runs twice), or `skip` them. The source run of a registered version
    is always a model, and so is a run without a parent that is read."""

    statuses: tuple[RunStatus, ...] = ()
    """Only runs in one of these states; empty for all."""

    since: Annotated[PublicStr, AfterValidator(_moment)] | None = None
    """Only runs that started at or after this ISO date or time (UTC by default), or within an age
    such as `12h`, `7d` or `4w`."""

    stale_running_after: Duration | None = None
    """Time after its start, such as `7d`, at which an unfinished run counts as abandoned; after its
    former end if it was resumed. Its model gets the property `mlflow.abandoned`; it is read again
    after its end, or by a full pass. Nothing is written to MLflow. Default: never."""

    def since_ms(self, now_ms: int | None = None) -> int | None:
        """Return `since` in epoch milliseconds, an age counted back from `now_ms`."""
        if self.since is None:
            return None
        ago_s = seconds_in(self.since)
        if ago_s is not None:
            now = int(time.time() * 1000) if now_ms is None else now_ms
            return now - ago_s * 1000
        moment = datetime.fromisoformat(self.since)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)


class IncrementalConfig(RecipeModel):
    """Incremental reading: only changes since the last run. It needs state.

    A full pass follows every `state.full_every`. In between, a run is read again if it started or
    ended since, was unfinished at the last read, was resumed, deleted or restored, or was refused
    by the catalog. It is also read again if its registered versions or aliases changed, or a logged
    model of it was created or finished. If an experiment has new runs with old dates, such as
    imports, all its runs are read again. Of external models, the newest 500 are read again with
    their versions, and those created or finished since. MLflow does not tell when a run was edited
    after its end, nor when a logged model got a tag, parameter or metric: the next full pass reads
    these.
    """

    enabled: bool = True
    """Whether to read only changes. A recipe with `limit`, or with `runs.children: collapse`, reads
    everything in each run."""

    overlap: Duration = Duration("1h")
    """Overlap with the last run, for runs that started or ended since. It must exceed the clock
    skew between the server and the machines that log runs."""


class NamingConfig(RecipeModel):
    """Templates of the names in URNs. A changed template changes the URNs of its entities."""

    model: PublicStr = "{run_id}"
    """Name of a run's model; may use {run_id}."""

    group: PublicStr = "{experiment}"
    """Name of an experiment's group; may use {experiment}."""

    registered_group: PublicStr = "registered:{name}"
    """Name of a registered model's group; may use {name}."""

    version: PublicStr = "{name}_{version}"
    """Name of the model of a version; may use {name} and {version}."""

    @model_validator(mode="after")
    def _names_stay_apart(self) -> Self:
        Templates(**self.model_dump())
        return self


class RunLineageConfig(RecipeModel):
    """Lineage from datasets to models."""

    datasets: Literal["link", "create"] = "link"
    """`link` refers to the datasets of runs. `create` also describes those that no other writer
    describes: name, digest, number of rows and schema, as the newest run logged them."""

    process_instances: bool = False
    """Whether each run also becomes a process instance (`dataProcessInstance`), as in DataHub's own
    mlflow source. Its inputs are the run's datasets, and it is the training job of the run's model
    and versions, so lineage leads from dataset to run to model."""


class MlflowConfig(ConnectionConfig):
    """An MLflow tracking server, or another store that MlflowClient supports.

    MLflow's own variables are the defaults of the connection: MLFLOW_TRACKING_USERNAME and
    _PASSWORD (else ~/.mlflow/credentials), MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_INSECURE_TLS,
    MLFLOW_TRACKING_SERVER_CERT_PATH and MLFLOW_TRACKING_CLIENT_CERT_PATH.
    """

    # Keys of DataHub's own mlflow source that have another name here, or are not supported.
    key_hints: ClassVar[Mapping[str, str]] = {
        "model_name_separator": "is part of `naming.version` here, for example {name}_{version}",
        "materialize_dataset_inputs": "is `lineage: {datasets: create}` here",
        "source_mapping_to_platform": "is `datasets.source_types` here",
        "platform_instance_map": "is `datasets.platforms` here: {s3: {instance: …}}",
    }

    tracking_uri: TrackingUri = Field(
        default_factory=lambda: os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING_URI
    )
    """Tracking URI. The http or https address of a server and `databricks` are read over REST.
    The address of an SQLite, PostgreSQL or MySQL database is read by SQL. Any other tracking URI,
    such as a folder, needs the extra `mlflow`. Default: the variable MLFLOW_TRACKING_URI, else
    http://127.0.0.1:5000."""

    registry_uri: TrackingUri | None = Field(
        default_factory=lambda: os.environ.get("MLFLOW_REGISTRY_URI") or None
    )
    """Address of the model registry, if it differs from the tracking server's. If the two are no
    servers of the same kind, both are read by MlflowClient (extra `mlflow`). Default: the variable
    MLFLOW_REGISTRY_URI, else the tracking server; for `databricks`, its Unity Catalog
    `databricks-uc`."""

    reader: ReaderName = "auto"
    """How to read: `rest`, `database` (MLflow's own tables) or `client` (the installed
    MlflowClient). `auto` chooses by the addresses."""

    auth: Annotated[PublicStr | None, NotContent()] = None
    """Name of the MLflow plug-in that signs requests or adds headers to them; needs the extra
    `mlflow`. No other plug-in is loaded. Default: the variable MLFLOW_TRACKING_AUTH."""

    timeout_s: Timeout = 120.0
    """Seconds without data from the server until an attempt fails; for a database, the time limit
    of one statement."""

    page_size: Annotated[int, NotContent()] = Field(default=500, ge=1, le=50_000)
    """Maximum number of runs in one request. The first page is smaller, and so are pages of runs
    with thousands of parameters and metrics."""

    connections: Annotated[int, NotContent()] = Field(default=3, ge=1, le=32)
    """Maximum number of concurrent requests for pages of runs."""

    experiments: PatternFilter = PatternFilter()
    """Experiments to read, by name."""

    workspaces: PatternFilter = PatternFilter()
    """Workspaces to read, by name, on a server with workspaces. One that is named in full, here or
    by the variable MLFLOW_WORKSPACE, is read even if MLflow does not list it."""

    runs: RunsConfig = RunsConfig()
    """Runs that become models."""

    incremental: Annotated[IncrementalConfig, NotContent()] = IncrementalConfig()
    """Incremental reading: only changes since the last run."""

    limit: int | None = Field(default=None, ge=1)
    """Read only this number of the newest runs; for trials."""

    system_metrics: bool = False
    """Whether to read system metrics (`system/…`) too."""

    env: Fabric = "PROD"
    """Environment in every URN."""

    instance: PublicStr | None = named("instance", "platform_instance")
    """Platform instance: a prefix of every name, for several servers in one catalog."""

    compat: Literal["datahub"] | None = None
    """`datahub` writes to the entities of DataHub's own mlflow source: a registered model is the
    group `<name>`, and an experiment the group `experiment:<name>`. A template in `naming` takes
    precedence. It cannot be combined with `instance`, which that source lacks."""

    naming: NamingConfig = NamingConfig()
    """Templates of the names in URNs."""

    ui_url: ServiceUrl | None = named("ui_url", "base_external_url")
    """Address of the MLflow UI for links. Default: the tracking URI."""

    server_id: PublicStr | None = None
    """Identity of the server among the catalog's sources. Default: derived from the server."""

    owners: OwnersConfig = OwnersConfig()
    """How users map to owners. The user of a run is its tag `mlflow.user`, else the deprecated
    `user_id`."""

    datasets: KnownDatasets = DatasetsConfig()
    """How the catalog names the datasets of runs."""

    lineage: RunLineageConfig = RunLineageConfig()
    """Lineage from datasets to models."""

    features: FeaturesConfig = FeaturesConfig()
    """Links from models to their training features."""

    model_cards: bool = False
    """Whether to read the model card of each logged model: the file `README.md`, else
    `model_card.md`, beside its file `MLmodel`. Its sections fill the aspects `intendedUse`,
    `mlModelFactorPrompts`, `mlModelEthicalConsiderations` and `mlModelCaveatsAndRecommendations`
    of the run's model and of its versions, beside what users wrote there. Cost: up to four
    requests for each logged model whenever its run is read. `false` keeps what was read."""

    include: tuple[AssetsName, ...] = ()
    """What is read beside runs and models: `mcp_servers` with their tools (MLflow 3.15), `skills`
    (3.18) and `prompts`, of all of which each pass reads all, and `agents`: external models of type
    `agent`, read as these are."""

    alias_tags: bool = False
    """Whether to add a global tag `mlflow_alias_<alias>` for each alias of a model version."""

    @model_validator(mode="before")
    @classmethod
    def _preset_names(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("compat") != "datahub":
            return data
        naming = {} if data.get("naming") is None else data["naming"]
        if not isinstance(naming, dict):
            return data
        return {**data, "naming": {**asdict(DATAHUB_TEMPLATES), **naming}}

    @model_validator(mode="before")
    @classmethod
    def _split_user_info(cls, data: Any) -> Any:
        # A password in an address would be printed with it; as a field it is masked everywhere.
        uri = data.get("tracking_uri") if isinstance(data, dict) else None
        if isinstance(data, dict) and "tracking_uri" not in data:
            uri = os.environ.get("MLFLOW_TRACKING_URI")
        if not isinstance(uri, str) or not is_http(uri.strip()):
            return data
        parts = urlsplit(uri.strip())
        user_info, at, host = parts.netloc.rpartition("@")
        if not at:
            return data
        user, _, password = user_info.partition(":")
        return {
            **({"username": unquote(user)} if user else {}),
            **({"password": unquote(password)} if password else {}),
            **data,
            "tracking_uri": urlunsplit(parts._replace(netloc=host)),
        }

    @model_validator(mode="after")
    def _choices_fit(self) -> Self:
        check_compat(self.compat, self.instance)
        if self.reader == "rest" and not self.over_http:
            raise ValueError("`reader: rest` requires the http or https address of a server")
        if is_unity_catalog(self.tracking_uri):
            raise ValueError(
                "`databricks-uc` is a model registry: set it as `registry_uri`, and `databricks` "
                "as `tracking_uri`"
            )
        if self.reader == "database" and not is_readable_database(self.tracking_uri):
            raise ValueError(
                "`reader: database` requires the address of an SQLite, PostgreSQL or MySQL database"
            )
        if self.reader == "client" and (unread := [*{*self.include} - {"prompts", "agents"}]):
            raise ValueError(f"`reader: client` reads no {min(unread)}: delete it from `include`")
        return self

    def of_one(self, uri: str) -> Self:
        """Return the same configuration for a server or database that is its own registry."""
        return self.model_copy(update={"tracking_uri": uri, "registry_uri": None})

    @property
    def named_workspaces(self) -> list[str]:
        """The workspaces that the recipe, or MLflow's own variable, names without a pattern."""
        own = os.environ.get("MLFLOW_WORKSPACE") or ""
        literal = [pattern.removesuffix("$") for pattern in self.workspaces.allow]
        names = [name for name in dict.fromkeys((*literal, own)) if _NAME.fullmatch(name)]
        return [name for name in names if self.workspaces.allows(name)]

    @property
    def public_uri(self) -> str:
        """The tracking URI without user name, password and query, for messages."""
        return redact_url(self.tracking_uri)

    @property
    def over_http(self) -> bool:
        """True if everything can be read over REST."""
        uris = self.tracking_uri, self.registry_uri or self.tracking_uri
        return all(is_http(uri) or has_databricks_scheme(uri) for uri in uris)
