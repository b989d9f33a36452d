"""A recipe over a Feast registry in a file, run again and again into a catalog in memory."""

from dataclasses import dataclass, field
from pathlib import Path

from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession
from mlcat_ingest.sources.feast.source import FeastSource
from mlcat_ingest.workflows.plan import Plan
from mlcat_ingest.workflows.plan_catalog import PlannedCatalog, PlannedDelivery
from mlcat_ingest.workflows.plan_store import PlanStore
from support.fakes import FakeSink
from support.feast import config
from support.recipes import a_recipe


@dataclass
class RegistryRecipe:
    """Ingests `registry.db` of `folder`; `max_removed_ratio` is that of the recipe."""

    folder: Path
    has_state: bool = True
    max_removed_ratio: float = 0.2
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))

    def ingest(self, content: bytes) -> Report:
        """Run once over a registry of this content."""
        (self.folder / "registry.db").write_bytes(content)
        state = StateSession(self._url, self._state_options) if self.has_state else StateSession()
        return PipelineRun([self._source()], self.sink, self._options(state)).execute()

    def plan(self) -> Plan:
        """Find what `ingest` would write."""
        spool, state = PlanStore(), StateSession(self._url, self._state_options, StatePolicy.COPY)
        sink = PlannedCatalog(self.sink, spool)
        run = PipelineRun(
            [self._source()],
            sink,
            self._options(state),
            lambda context, _: PlannedDelivery(spool, context),
        )
        return Plan(run.execute(), spool)

    def removed(self) -> set[str]:
        """Return the entities that are marked as removed."""
        stored = self.sink.stored.items()
        return {urn for urn, one in stored if one.get("status", {}).get("removed")}

    def live(self) -> set[str]:
        """Return the entities of the registry that are not."""
        return {urn for urn in self.sink.stored if ":ml" in urn} - self.removed()

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.folder}/state.db"

    @property
    def _state_options(self) -> StateOptions:
        return StateOptions("r")

    def _source(self) -> FeastSource:
        return FeastSource(config(registry=str(self.folder / "registry.db")))

    def _options(self, state: StateSession) -> RunOptions:
        return RunOptions(
            a_recipe(
                "r",
                evaluate={"enabled": False},
                limits={"max_removed_ratio": self.max_removed_ratio},
            ),
            state=state,
        )
