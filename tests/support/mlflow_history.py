"""An MLflow server with a history of edits, and a recipe that is run again and again over it."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.workflows.plan import Plan
from mlcat_ingest.workflows.plan_catalog import PlannedCatalog, PlannedDelivery
from mlcat_ingest.workflows.plan_store import PlanStore
from support.fake_mlflow import FakeReader, FakeStore, a_source
from support.fakes import FakeSink
from support.recipes import a_recipe

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def fast_folder() -> str | None:
    """Return a folder in memory where there is one: each pass writes durably."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


@dataclass
class Server:
    """An MLflow server whose clock goes on, with the edits that people and programs make."""

    now_ms: int = 1_760_000_000_000
    store: FakeStore = field(default_factory=FakeStore)
    elsewhere: FakeStore = field(default_factory=FakeStore)
    """What is in another workspace."""
    made: int = 0
    names: dict[str, list[str]] = field(default_factory=dict)
    """Earlier names of experiments by their ids."""

    def __post_init__(self) -> None:
        self.store.experiments = [
            Experiment("0", "Default", created_at_ms=1),
            Experiment("1", "fraud", created_at_ms=2),
        ]

    @classmethod
    def in_use(cls) -> "Server":
        """Return a server that has some of everything, none of it lately."""
        server = cls()
        server.new_experiment(0)
        for at in range(9):
            server.start(at)
            server.now_ms += MINUTE_MS
        for at in range(6):
            server.end(at)
        for at in (1, 2, 5, 8):
            server.register(at)
            server.log_model(at)
        server.make_agent(0)
        server.measure_agent(0)
        server.delete(3)
        server.now_ms += 50 * HOUR_MS
        return server

    def run(self, at: int, **changes: Any) -> None:
        runs = self.store.runs
        if runs:
            runs[at % len(runs)] = replace(runs[at % len(runs)], **changes)

    def edit(self, at: int, **changes: Any) -> None:
        """Change a run, but for one in the trash: MLflow refuses that."""
        runs = self.store.runs
        if runs and runs[at % len(runs)].lifecycle_stage == "active":
            self.run(at, **changes)

    def name(self) -> str:
        self.made += 1
        return f"{self.made:032x}"

    def start(self, at: int) -> None:
        experiments = self.store.experiments
        self.store.runs.append(
            Run(
                self.name(),
                experiments[at % len(experiments)].experiment_id,
                name=f"run {at}",
                status="RUNNING",
                start_time_ms=self.now_ms,
                params={"p": str(at)},
            )
        )

    def start_child(self, at: int) -> None:
        """Start a run below another one, in its experiment."""
        runs = self.store.runs
        if runs:
            parent = runs[at % len(runs)]
            self.start(at)
            tags = {"mlflow.parentRunId": parent.run_id}
            runs[-1] = replace(runs[-1], experiment_id=parent.experiment_id, tags=tags)

    def end(self, at: int) -> None:
        self.edit(at, status="FINISHED", end_time_ms=self.now_ms)
        self.tag(at, ended=str(at))

    def end_by_a_slow_clock(self, at: int) -> None:
        self.edit(at, status="FAILED", end_time_ms=self.now_ms - 50 * MINUTE_MS)

    def end_long_ago_what_was_open(self, at: int) -> None:
        """End a run that never had an end; only a full pass finds one that had, and now ends so."""
        runs = self.store.runs
        one = runs[at % len(runs)] if runs else None
        if one is not None and one.status == "RUNNING" and one.end_time_ms is None:
            self.edit(at, status="KILLED", end_time_ms=self.now_ms - 100 * HOUR_MS)

    def resume(self, at: int) -> None:
        runs = self.store.runs
        if runs and runs[at % len(runs)].status == "RUNNING":
            self.edit(at, params={"p": "resumed"})

    def resume_ended(self, at: int) -> None:
        """Resume a run that has ended: MLflow keeps its end."""
        runs = self.store.runs
        if runs and runs[at % len(runs)].status != "RUNNING":
            self.edit(at, status="RUNNING", params={"p": "resumed"})

    def import_run(self, at: int) -> None:
        """Create a run with the dates of one from long ago, or from the future."""
        self.start(at)
        start_ms = self.now_ms + (500 if at % 4 == 0 else -500) * HOUR_MS
        end_ms = None if at % 3 == 0 else start_ms + HOUR_MS
        status = "RUNNING" if end_ms is None else "FINISHED"
        self.store.runs[-1] = replace(
            self.store.runs[-1], status=status, start_time_ms=start_ms, end_time_ms=end_ms
        )

    def delete(self, at: int) -> None:
        self.run(at, lifecycle_stage="deleted")

    def restore(self, at: int) -> None:
        self.run(at, lifecycle_stage="active")

    def vanish(self, at: int) -> None:
        """Take a registered version away, as if it was deleted."""
        if self.store.versions:
            del self.store.versions[at % len(self.store.versions)]

    def purge_run(self, at: int) -> None:
        """Delete a run for good, as `mlflow gc` does."""
        runs = self.store.runs
        if runs:
            gone = runs.pop(at % len(runs))
            self.store.models = [
                model for model in self.store.models if model.source_run_id != gone.run_id
            ]

    def purge_experiment(self, at: int) -> None:
        """Delete an experiment and all its runs for good."""
        if len(self.store.experiments) > 1:
            gone = self.store.experiments.pop(1 + at % (len(self.store.experiments) - 1))
            left = [run for run in self.store.runs if run.experiment_id != gone.experiment_id]
            self.store.runs = left
            self.store.models = [
                model for model in self.store.models if model.experiment_id != gone.experiment_id
            ]

    def give_id_again(self, at: int) -> None:
        """Make an experiment with the id of one that is deleted for good, as SQLite does."""
        experiments, before = self.store.experiments, len(self.store.experiments)
        gone = experiments[-1].experiment_id
        self.purge_experiment(len(experiments) - 2)
        if len(experiments) < before:
            self.made += 1
            name = f"again {at} {self.made}"
            experiments.append(Experiment(gone, name, created_at_ms=self.now_ms))

    def move_experiment(self, at: int) -> None:
        """Move an experiment, with all that it contains, to another workspace."""
        here, there = self.store, self.elsewhere
        if len(here.experiments) > 1:
            moved = here.experiments.pop(1 + at % (len(here.experiments) - 1))
            there.experiments.append(moved)
            for name in ("runs", "models"):
                every = getattr(here, name)
                of_it = [one for one in every if one.experiment_id == moved.experiment_id]
                setattr(here, name, [one for one in every if one not in of_it])
                getattr(there, name).extend(of_it)

    def purge_model(self, at: int) -> None:
        """Delete a registered model and its versions."""
        if self.store.registered:
            gone = self.store.registered.pop(at % len(self.store.registered)).name
            self.store.versions = [one for one in self.store.versions if one.name != gone]

    def new_experiment(self, at: int) -> None:
        self.made += 1
        number = str(100 + self.made)
        name = f"new {at} {self.made}"
        self.store.experiments.append(Experiment(number, name, created_at_ms=self.now_ms))

    def experiment(self, at: int, **changes: Any) -> None:
        experiments = self.store.experiments
        chosen = at % len(experiments)
        experiments[chosen] = replace(experiments[chosen], **changes)

    def rename(self, at: int) -> None:
        self.made += 1
        self._name(at, f"renamed {self.made}")

    def rename_back(self, at: int) -> None:
        """Give an experiment one of its earlier names."""
        earlier = self.names.get(self._experiment(at).experiment_id)
        if earlier:
            self._name(at, earlier[at % len(earlier)])

    def _name(self, at: int, name: str) -> None:
        experiment = self._experiment(at)
        self.names.setdefault(experiment.experiment_id, []).append(experiment.name)
        self.experiment(at, name=name)

    def _experiment(self, at: int) -> Experiment:
        return self.store.experiments[at % len(self.store.experiments)]

    def restore_renamed(self, at: int) -> None:
        self.restore_experiment(at)
        self.rename(at)

    def describe(self, at: int) -> None:
        self.experiment(at, tags={"mlflow.note.content": f"note {at}"})

    def delete_experiment(self, at: int) -> None:
        self.experiment(at, lifecycle_stage="deleted")

    def restore_experiment(self, at: int) -> None:
        self.experiment(at, lifecycle_stage="active")

    def register(self, at: int) -> None:
        if not self.store.runs:
            return
        name = f"model {at % 2}"
        if all(model.name != name for model in self.store.registered):
            self.store.registered.append(RegisteredModel(name, created_at_ms=self.now_ms))
        run = self.store.runs[at % len(self.store.runs)]
        self.store.versions.append(
            ModelVersion(
                name,
                str(self.made + 1),
                run.run_id if at % 5 else None,
                created_at_ms=self.now_ms,
                last_updated_at_ms=self.now_ms,
            )
        )
        self.made += 1

    def version(self, at: int, **changes: Any) -> None:
        versions = self.store.versions
        if versions:
            chosen = at % len(versions)
            versions[chosen] = replace(versions[chosen], **changes)

    def move_stage(self, at: int) -> None:
        stage = ("Staging", "Production")[at % 2]
        self.version(at, stage=stage, last_updated_at_ms=self.now_ms)

    def tag_version(self, at: int) -> None:
        self.version(at, tags={"checked": str(at)})

    def move_alias(self, at: int) -> None:
        if self.store.versions:
            version = self.store.versions[at % len(self.store.versions)]
            self.store.registered = [
                replace(model, aliases={"champion": version.version})
                if model.name == version.name
                else model
                for model in self.store.registered
            ]

    def log_model(self, at: int) -> None:
        if self.store.runs:
            run = self.store.runs[at % len(self.store.runs)]
            model_id = f"m-{self.name()}"
            self.store.models.append(
                LoggedModel(
                    model_id,
                    run.experiment_id,
                    f"forest {at}",
                    "PENDING",
                    run.run_id,
                    created_at_ms=self.now_ms,
                    last_updated_at_ms=self.now_ms,
                )
            )
            self.run(at, model_outputs=(*run.model_outputs, ModelOutput(model_id)))

    def finish_model(self, at: int) -> None:
        models = self.store.models
        if models:
            chosen = at % len(models)
            models[chosen] = replace(models[chosen], status="READY", last_updated_at_ms=self.now_ms)

    def make_agent(self, at: int) -> None:
        """Make an external model, every other one inside a run."""
        run = self.store.runs[at % len(self.store.runs)] if self.store.runs and at % 2 else None
        experiments = self.store.experiments
        self.store.models.append(
            LoggedModel(
                f"m-{self.name()}",
                run.experiment_id if run else experiments[at % len(experiments)].experiment_id,
                f"agent {at}",
                "READY",
                run.run_id if run else None,
                created_at_ms=self.now_ms,
                last_updated_at_ms=self.now_ms,
                tags={EXTERNAL_TAG: "true"},
            )
        )

    def agent(self, at: int, **changes: Any) -> None:
        agents = [n for n, one in enumerate(self.store.models) if one.is_external]
        if agents:
            chosen = agents[at % len(agents)]
            self.store.models[chosen] = replace(self.store.models[chosen], **changes)

    def tag_agent(self, at: int) -> None:
        self.agent(at, tags={EXTERNAL_TAG: "true", "checked": str(at)}, params={"llm": str(at)})

    def measure_agent(self, at: int) -> None:
        """Log a metric of an external model outside a run: MLflow starts one for it."""
        agents = [one for one in self.store.models if one.is_external]
        if not agents:
            return
        model = agents[at % len(agents)]
        metric = Metric("score", at / 4, self.now_ms, 0)
        run = Run(
            self.name(),
            model.experiment_id,
            name=f"mysterious-bee-{at}",
            status="RUNNING",
            start_time_ms=self.now_ms,
            metrics=(metric,),
            tags={"mlflow.user": "ann"},
        )
        self.store.runs.append(run)
        of_model = metric._replace(model_id=model.model_id, run_id=run.run_id)
        self.agent(at, metrics=(*model.metrics, of_model))

    def delete_logged_model(self, at: int) -> None:
        if self.store.models:
            del self.store.models[at % len(self.store.models)]

    def wait(self, at: int) -> None:
        self.now_ms += (at + 1) * 20 * MINUTE_MS

    def tag(self, at: int, **tags: str) -> None:
        """Add tags to a run, but for one in the trash."""
        if self.store.runs:
            before = self.store.runs[at % len(self.store.runs)].tags
            self.edit(at, tags={**before, **tags})

    def tag_late(self, at: int) -> None:
        self.tag(at, late=str(at))


REPORTED = (
    *("start", "end", "end_by_a_slow_clock", "end_long_ago_what_was_open", "resume", "delete"),
    *("restore", "vanish", "new_experiment", "rename", "describe", "delete_experiment"),
    *("restore_experiment", "register", "move_stage", "tag_version", "move_alias", "log_model"),
    *("finish_model", "make_agent", "measure_agent", "tag_agent"),
    *("wait", "wait", "start", "end", "start_child", "start_child"),
    *("import_run", "import_run", "resume_ended"),
)
"""Changes that MLflow tells of, one way or another."""

OF_GROUPS = (
    *("rename", "rename", "rename_back", "rename_back", "delete_experiment", "delete_experiment"),
    *("restore_renamed", "restore_renamed", "restore_experiment", "start"),
)
"""Changes among these that give experiments other groups."""


@dataclass
class Recipe:
    """A recipe that is run again and again into a catalog of its own."""

    server: Server
    url: str | None = None
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))
    config: dict[str, Any] = field(default_factory=dict)
    max_removed_ratio: float = 1.0
    beside: Server | None = None
    """Another server that the recipe reads after the first one."""
    workspace: str = "default"
    """Where on the server everything is; the default workspace is empty then."""
    lists_parents: bool = False
    page: int = 50
    name: str = "r"
    reused_names: str = "keep"

    def ingest(self, *, full: bool = False) -> Report:
        """Run once, without a failure."""
        report = self.report(full=full)
        report.raise_for_failure()
        assert report.exit_code == 0
        return report

    def report(self, *, full: bool = False) -> Report:
        """Run once."""
        state = StateSession(self.url, _state_options(self.name, full=full))
        return PipelineRun(self._sources(), self.sink, self._options(state)).execute()

    def plan(self, *, full: bool = False) -> Plan:
        """Find what `report` would write."""
        spool = PlanStore()
        options = self._options(
            StateSession(self.url or "", _state_options(self.name, full=full), StatePolicy.COPY)
        )
        sink = PlannedCatalog(self.sink, spool)
        run = PipelineRun(
            self._sources(),
            sink,
            options,
            lambda context, _: PlannedDelivery(spool, context),
        )
        return Plan(run.execute(), spool)

    def _sources(self) -> list[MlflowSource]:
        reader = _reader(
            self.server, self.workspace, page=self.page, lists_parents=self.lists_parents
        )
        sources = [a_source(reader, **self.config)]
        if self.beside is not None:
            sources.append(a_source(_reader(self.beside, id="another"), instance="b"))
        return sources

    def _options(self, state: StateSession) -> RunOptions:
        return RunOptions(
            a_recipe(
                self.name,
                evaluate={"enabled": False},
                reused_names=self.reused_names,
                limits={"max_removed_ratio": self.max_removed_ratio},
            ),
            state=state,
        )


def _reader(server: Server, workspace: str = "default", **options: Any) -> FakeReader:
    stores = {"default": FakeStore(), workspace: server.store}
    return FakeReader(stores, **{"page": 50, **options}, now_ms=server.now_ms)


def _state_options(name: str, *, full: bool) -> StateOptions:
    # The state's own clock is not the server's: a day of the history takes no day here.
    return StateOptions(name, (name,), full=full)
