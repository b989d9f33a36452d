"""The source `mlcat` of `datahub ingest`: a recipe, run by our pipeline with DataHub's connection.

The pipeline writes to the catalog by itself, since a merge reads before it writes. DataHub's sink
gives the address and the credentials, and DataHub's report gets what the run did.
"""

import threading
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import click
from datahub.cli.config_utils import get_system_auth, load_client_config
from datahub.ingestion.api.common import PipelineContext
from datahub.ingestion.api.source import (
    CapabilityReport,
    MetadataWorkUnitProcessor,
    SourceCapability,
    SourceReport,
    TestableSource,
    TestConnectionReport,
)
from datahub.ingestion.api.workunit import MetadataWorkUnit
from datahub.ingestion.graph.config import DatahubClientConfig

from mlcat_ingest.core.environment import require_posix, stop_on_signals
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.report.catalog import entries_of
from mlcat_ingest.pipeline.report.render import as_text
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.recipe.draft import draft_of_data
from mlcat_ingest.recipe.model import ENRICH_FORM
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.workflows.check import examine
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve_draft, service_sink

_LABEL: Final = "recipe in source.config"
_SINK: Final = "datahub-rest"
_CONNECTION: Final = frozenset(
    {
        *("server", "token", "timeout_sec", "retry_max_times", "extra_headers"),
        *("ca_certificate_path", "client_certificate_path", "client_key_path"),
        "disable_ssl_verification",
    }
)
"""Options of DataHub's client that are options of our sink, too, under the same names."""

_OUTSIDE: Final = {
    "name": "`pipeline_name`, beside `source`",
    "pipeline_name": "`pipeline_name`, beside `source`",
    "sink": "`sink`, beside `source`",
}
"""Keys of a recipe that DataHub's recipe has in another place."""


@dataclass
class MlcatReport(SourceReport):
    """DataHub's report of a source, filled from ours."""

    records: int = 0
    entities: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, report: Report) -> None:
        """Take the numbers, failures and notes of a run."""
        self.records = report.records
        self.events_produced = report.proposals_sent
        self.entities = {kind: asdict(counts) for kind, counts in report.entities.items()}
        entries = entries_of(report)
        for entry in entries["failures"] + entries["unusable"] + entries["losses"]:
            self.failure(**_entry(entry))
        for entry in entries["warnings"]:
            self.warning(**_entry(entry))
        for entry in entries["infos"]:
            self.info(**_entry(entry), log=False)

    def compute_stats(self) -> None:
        """Count the entities where DataHub's pages look for them: DataHub counts work units."""
        super().compute_stats()
        for kind, counts in self.entities.items():
            aspects = {properties_aspect(kind) or "status": counts["read"]}
            self.aspects[kind].update(aspects)
            self.aspects_by_subtypes_full_count[kind]["unknown"].update(aspects)


class MlcatSource(TestableSource):
    """A recipe as a source of DataHub; the call for work units is the whole run."""

    platform = "mlcat"

    def __init__(self, ctx: PipelineContext, pipeline: Pipeline) -> None:
        super().__init__(ctx)
        self._pipeline = pipeline
        self.report = MlcatReport()

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> "MlcatSource":
        """Return the source of a recipe; nothing is contacted.

        Raises:
            RecipeError: the recipe is wrong, or DataHub's asks for what this source cannot do.
        """
        require_posix()
        client = _client_of(ctx)
        name = ctx.pipeline_name
        if not name:
            raise RecipeError(
                "the recipe has no `pipeline_name`",
                hint="set it, and do not change it later: it owns the entries of the recipe",
            )
        resolved = _resolved(config_dict, name)
        return cls(ctx, Pipeline(replace(resolved, sink=service_sink(_sink_of(client), "sink"))))

    def get_workunit_processors(self) -> list[MetadataWorkUnitProcessor | None]:
        """Return none: one of DataHub's would warn that there were no work units."""
        return []

    def get_workunits_internal(self) -> Iterable[MetadataWorkUnit]:
        """Run the recipe, and return no work units.

        Raises:
            KeyboardInterrupt: the run was interrupted, by Ctrl-C or SIGTERM.
        """
        is_main = threading.current_thread() is threading.main_thread()
        with stop_on_signals() if is_main else nullcontext():
            report = self._run()
        self.report.take(report)
        if report.interrupted:
            report.raise_for_failure()
        return ()

    def _run(self) -> Report:
        if self.ctx.dry_run_mode:
            with closing(self._pipeline.plan()) as plan:
                click.echo("dry run: nothing was written; the counts are those of a run")
                return plan.report
        report = self._pipeline.run(run_id=self.ctx.run_id)
        click.echo(as_text(report))
        return report

    def get_report(self) -> MlcatReport:
        """Return the report, which is empty until the run has ended."""
        return self.report

    @staticmethod
    def test_connection(config_dict: dict[str, Any]) -> TestConnectionReport:
        """Check the recipe and its sources; DataHub does not pass on the sink."""
        try:
            checked = examine(_resolved(config_dict, "recipe"))
            # What it says of a missing sink is true of our command line only.
            found = [(one.side, one) for one in checked if one.side != "sink"]
        except MlcatError as error:
            refused = CapabilityReport(capable=False, failure_reason=mask(str(error)))
            return TestConnectionReport(basic_connectivity=refused)
        reports: dict[SourceCapability | str, CapabilityReport] = {
            f"{side}: {finding.what}": CapabilityReport(
                capable=finding.outcome != "failed",
                failure_reason=None if finding.outcome == "ok" else mask(finding.detail),
                mitigation_message=finding.hint,
            )
            for side, finding in found
        }
        failed = [
            f"{what}: {one.failure_reason}" for what, one in reports.items() if not one.capable
        ]
        return TestConnectionReport(
            basic_connectivity=CapabilityReport(
                capable=not failed, failure_reason="; ".join(failed) or None
            ),
            capability_report=reports,
        )


def _resolved(config: Mapping[str, Any], name: str) -> ResolvedRecipe:
    for key, place in _OUTSIDE.items():
        if key in config:
            raise RecipeError(f"{_LABEL}: {key}: is {place}, in a recipe of DataHub")
    # DataHub lists the run by itself.
    data = {"report_to_catalog": False, **config, "name": name}
    return resolve_draft(draft_of_data(data, _LABEL))


def _client_of(ctx: PipelineContext) -> DatahubClientConfig:
    """Return DataHub's connection: the sink's, or the default one where the recipe has no sink."""
    recipe = ctx.pipeline_config
    sink = None if recipe is None else recipe.sink
    if sink is not None and sink.type != _SINK:
        raise RecipeError(
            f"the source `mlcat` cannot write to the sink `{sink.type}`",
            hint=f"use `{_SINK}`, or `mlcat-ingest` without DataHub for a file",
        )
    if recipe is not None and recipe.transformers:
        raise RecipeError(
            "the source `mlcat` writes by itself, so that `transformers` cannot change anything",
            hint=f"in source.config that {ENRICH_FORM}",
        )
    if ctx.preview_mode:
        raise RecipeError(
            "the source `mlcat` has no `--preview`",
            hint="use `--dry-run`, or `limit` in the config of an mlflow source",
        )
    if sink is None:
        return load_client_config()
    return DatahubClientConfig.model_validate(sink.config or {})


def _sink_of(client: DatahubClientConfig) -> dict[str, Any]:
    """Return the configuration of our sink that reaches the server as DataHub's client does."""
    if getattr(client, "auth", None) is not None:  # 1.7 and later
        raise RecipeError(
            "the source `mlcat` cannot sign in to DataHub by `auth`",
            hint="set `token` in the sink, or DATAHUB_GMS_TOKEN",
        )
    config = client.model_dump(include=set(_CONNECTION), exclude_none=True)
    # Empty is none: a token of our environment belongs to another server.
    config.setdefault("token", "")
    if not config["token"] and (system := get_system_auth()):
        config["extra_headers"] = {"Authorization": system, **config.get("extra_headers", {})}
    return config


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "context": "; ".join(entry["context"]) or None}
