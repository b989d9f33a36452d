"""Operators that run recipes: as a whole, or planned, read in mapped shards, and finished."""

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from mlcat_ingest.airflow.assets import CatalogLink, publish
from mlcat_ingest.airflow.hook import INLINE, RecipeSource, recipe_of
from mlcat_ingest.airflow.reports import (
    changed_group_lines,
    join_summaries,
    page_of,
    refused_by,
    summary_of,
)
from mlcat_ingest.airflow.sdk import AirflowException, AirflowFailException, BaseOperator
from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.capabilities import pages_of
from mlcat_ingest.core.environment import local_path
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import FatalError, RecipeError, RecipeValidationError
from mlcat_ingest.hooks.drain import drain_spool
from mlcat_ingest.hooks.spool import EventSpool
from mlcat_ingest.pipeline.report.progress import PlainProgress
from mlcat_ingest.pipeline.report.render import as_text
from mlcat_ingest.pipeline.report.report import EXIT_PARTIAL, Report
from mlcat_ingest.sources.base import Capability
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve
from mlcat_ingest.workflows.shard import LEAST_SIZE, MOST, ShardGroup, Sharding

log = logging.getLogger(__name__)

T = TypeVar("T")

_NATIVE: Final = (
    "\nthis DAG has `render_template_as_native_obj`, which makes a number of a text that looks "
    "like one; put it in quotes inside of the template: \"'{{ params.version }}'\""
)
_KILLED: Final = "killed; acknowledged writes remain in the catalog"


class _RecipeOperator(BaseOperator):
    """The options and the run that the operators of one recipe share.

    An outlet that is an `AssetAlias` gets an event for each changed group, as many as a summary
    names; any other has what was done as `extra`.
    """

    template_fields: Sequence[str] = ("recipe", "mlcat_conn_id", "mlflow_conn_id")
    operator_extra_links = (CatalogLink(),)
    ui_color: ClassVar[str] = "#e8f0e4"

    def __init__(
        self,
        *,
        recipe: RecipeSource,
        mlcat_conn_id: str | None = None,
        mlflow_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.recipe = recipe
        self.mlcat_conn_id = mlcat_conn_id
        self.mlflow_conn_id = mlflow_conn_id
        self.catalog_page = ""
        self._resolved: ResolvedRecipe | None = None
        self._report: Report | None = None
        self._is_running = self._is_killed = False

    def execute(self, context: Any) -> Any:
        """Do the task's work, and return what other tasks need to know.

        Raises:
            AirflowFailException: it cannot succeed, also in another attempt.
            AirflowException: the task was killed.
            MlcatError: another attempt may succeed.
        """
        try:
            return self._execute(context)
        except (RecipeError, FatalError) as error:
            is_native = self.has_dag() and self.dag.render_template_as_native_obj
            made = is_native and isinstance(error, RecipeValidationError)
            raise AirflowFailException(f"{error}{_NATIVE if made else ''}") from error

    @abstractmethod
    def _execute(self, context: Any) -> Any:
        """Do the work of one kind of task."""

    def on_kill(self) -> None:
        """Stop as Ctrl-C does: requests under way come to their end, and the task fails."""
        # Airflow calls this from its handler of SIGTERM, in the thread that waits for the run. Its
        # own requests, before and after that, are not interrupted.
        self._is_killed = True
        if self._is_running:
            raise KeyboardInterrupt

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the task's `OperatorLineage`; OpenLineage's provider calls this at its end.

        An input is a system that the recipe reads, by its address without credentials. An output is
        a changed group that the report names, by its URN, in the namespace of the catalog.
        """
        from airflow.providers.common.compat.openlineage.facet import Dataset
        from airflow.providers.openlineage.extractors import OperatorLineage

        del task_instance
        lineage = OperatorLineage()
        if self._resolved is None:
            return lineage
        for spec in self._resolved.sources:
            with closing(spec.build()) as source:
                holds = "features" if Capability.FEATURES in source.capabilities else "experiments"
                lineage.inputs.append(Dataset(source.address or spec.type, holds))
        if self._resolved.sink is not None and self._report is not None:
            with closing(self._resolved.sink.build()) as sink:
                for urn in self._report.changed_group_urns:
                    lineage.outputs.append(Dataset(sink.address, urn))
        return lineage

    def _resolve(self) -> ResolvedRecipe:
        recipe = recipe_of(self.recipe, self.mlcat_conn_id or None, self.mlflow_conn_id or None)
        self._resolved = resolved = resolve(recipe)
        if resolved.sink is not None and isinstance(resolved.sink.config, RestSinkConfig):
            config = resolved.sink.config
            self.catalog_page = config.ui_url or pages_of(config.server or "")
        return resolved

    def _until_killed(self, run: Callable[[], T]) -> T:
        """Run, and return the result.

        Raises:
            AirflowException: the task was killed, now or before.
        """
        self._is_running = True
        try:
            if self._is_killed:
                raise AirflowException("killed before the recipe ran; nothing was written")
            return run()
        except KeyboardInterrupt:
            raise AirflowException(_KILLED) from None
        finally:
            self._is_running = False

    def _summary(self, report: Report) -> dict[str, Any]:
        """Log a report, and return its summary if everything arrived.

        Raises:
            MlcatError: what ended the run.
            AirflowFailException: some records were refused, and would be again.
            AirflowException: the task was killed.
        """
        self._report = report
        for line in (*as_text(report).splitlines(), *changed_group_lines(report)):
            log.info("%s", line)
        if report.group_page and len(report.changed_group_urns) == 1:
            self.catalog_page = page_of(report, report.changed_group_urns[0])
        if report.interrupted:
            raise AirflowException(_KILLED)
        report.raise_for_failure()
        if report.exit_code == EXIT_PARTIAL:
            count = report.failed_records + report.rejected
            lost = [*([plural(count, "record")] if count else []), *report.dropped]
            raise AirflowFailException(
                f"{', '.join(lost)} did not arrive; the first of them are in this log"
            )
        return summary_of(report)


class MlcatIngestOperator(_RecipeOperator):
    """Runs a recipe as a whole, or one shard of it; returns the report's summary.

    `recipe` is a path, a text in YAML or JSON, or a mapping. It has to say where to write, unless
    `mlcat_conn_id` does, a connection of type `mlcat` or `datahub_rest`. `mlflow_conn_id` fills
    `${MLFLOW_TRACKING_URI}` and MLflow's other variables in it. `shard` is one of those that
    `MlcatPlanOperator` returned; then outlets get nothing, for there is more to come.
    """

    def __init__(
        self, *, shard: Mapping[str, Any] | None = None, full: bool = False, **kwargs: Any
    ) -> None:
        """Keep what to run; nothing is read or contacted.

        Raises:
            RecipeError: a shard is to be read in `full`, as it always is.
        """
        super().__init__(**kwargs)
        if full and shard is not None:
            raise RecipeError(
                f"the task {self.task_id!r} has both `shard` and `full`",
                hint="delete `full`: a shard is always read as a whole",
            )
        self.shard = shard
        self.full = full

    def _execute(self, context: Any) -> dict[str, Any]:
        resolved = self._resolve()
        if self.shard is None:
            run = partial(Pipeline(resolved).run, PlainProgress(), full=self.full)
            done = self._summary(self._until_killed(run))
            publish(context, self.outlets, done)
            return done
        shard, sharding = ShardGroup.of_data(self.shard), Sharding(resolved)
        context["mlcat_shard"] = shard.label
        again = context["ti"].try_number > 1
        read = partial(sharding.read, shard, PlainProgress(), again=again)
        return self._summary(self._until_killed(read))


class MlcatPlanOperator(_RecipeOperator):
    """Returns the shards of a recipe, for `MlcatIngestOperator.partial(…).expand(shard=…)`."""

    template_fields = (*_RecipeOperator.template_fields, "most", "least_size")

    def __init__(
        self, *, most: int | str = MOST, least_size: int | str = LEAST_SIZE, **kwargs: Any
    ) -> None:
        """Plan at most `most` shards a source, none smaller than `least_size` records."""
        super().__init__(**kwargs)
        self.most = most
        self.least_size = least_size

    def _execute(self, context: Any) -> list[dict[str, Any]]:
        del context
        plan = partial(Sharding(self._resolve()).shards, int(self.most), int(self.least_size))
        shards = self._until_killed(plan)
        for shard in shards:
            log.info("about %s: %s", plural(shard.size, "record"), shard.label)
        return [shard.as_data() for shard in shards]


class MlcatFinishOperator(_RecipeOperator):
    """Writes the records of no shard, removes deleted ones, and returns the sum of all shards.

    Give it the shards that were planned and their reports: it fails, before it
    contacts anything, unless each shard has one.
    """

    template_fields = (*_RecipeOperator.template_fields, "shards", "reports")

    def __init__(self, *, shards: Any, reports: Any, **kwargs: Any) -> None:
        """Finish the run of these shards."""
        kwargs.setdefault("trigger_rule", "none_failed")
        super().__init__(**kwargs)
        self.shards = shards
        self.reports = reports

    def _execute(self, context: Any) -> dict[str, Any]:
        reports = [report for report in self.reports or () if report is not None]
        planned = len(self.shards or ())
        if len(reports) != planned:
            raise AirflowFailException(
                f"{len(reports)} of {plural(planned, 'shard')} reported; clear the failed tasks"
            )
        sharding = Sharding(self._resolve())
        finished = self._until_killed(lambda: sharding.finish(PlainProgress()))
        done = join_summaries([*reports, self._summary(finished)])
        publish(context, self.outlets, done)
        return done


class MlcatDrainOperator(_RecipeOperator):
    """Ingests the runs of the events in a spool of hooks; runs where the spool's folder is.

    Runs that the catalog does not acknowledge stay in the spool, and fail the task. Events of
    other recipe files stay, too; if `recipe` is not a path, a warning names those files.
    """

    template_fields = (*_RecipeOperator.template_fields, "spool")

    def __init__(self, *, spool: str, **kwargs: Any) -> None:
        """Drain the spool in the folder `spool`; one that is not there is empty."""
        super().__init__(**kwargs)
        self.spool = spool

    def _execute(self, context: Any) -> dict[str, int]:
        del context
        spool, resolved = EventSpool(local_path(self.spool)), self._resolve()
        label = resolved.recipe.origin.label
        result = self._until_killed(lambda: drain_spool(resolved, spool, label))
        if others := {event.recipe for event in spool.events() if label == INLINE} - {""}:
            text = "%s: events of this recipe file are left; drain them by its path, not inline"
            log.warning(text, ", ".join(sorted(others)))
        if result.report is not None:
            self._summary(result.report)
        drained = result.summary
        return {"events": drained.events, "runs": drained.runs, "left": drained.left}


class MlcatGateOperator(BaseOperator):
    """Fails if metadata tests fail of what a run wrote; passes where none are named."""

    template_fields: Sequence[str] = ("summary", "fail_on_tests")

    def __init__(self, *, summary: Any, fail_on_tests: str | None = None, **kwargs: Any) -> None:
        """Look in `summary` for tests whose URN the regular expression is found in.

        A template of a parameter that may be None needs `or ''`: None is rendered as a text.
        """
        super().__init__(**kwargs)
        self.summary = summary
        self.fail_on_tests = fail_on_tests

    def execute(self, context: Any) -> None:
        """Return if nothing that was asked for fails."""
        del context
        refusal = refused_by(self.summary, self.fail_on_tests)
        if refusal is not None:
            raise AirflowFailException(refusal)


def dag_settings() -> dict[str, Any]:
    """Return the settings that these DAGs share; each has one run at a time.

    `MLCAT_RETRY_DELAY_S` is how long a task waits before another attempt.
    """
    delay = timedelta(seconds=float(os.environ.get("MLCAT_RETRY_DELAY_S") or "120"))
    return {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "catchup": False,
        "max_active_runs": 1,
        "default_args": {"retries": 2, "retry_delay": delay},
        "tags": ["mlcat"],
    }


def dag_schedule() -> str | None:
    """Return the schedule that `MLCAT_SCHEDULE` says, none for `none`; daily if it says nothing."""
    schedule = os.environ.get("MLCAT_SCHEDULE") or "@daily"
    return None if schedule.lower() == "none" else schedule


def recipe_settings(variable: str, default: str) -> dict[str, Any]:
    """Return the recipe whose path `variable` holds, and the connections it is used with.

    These are named by `MLCAT_CONN_ID`, the catalog's, and `MLCAT_MLFLOW_CONN_ID`.
    """
    return {
        "recipe": str(local_path(os.environ.get(variable) or default)),
        "mlcat_conn_id": os.environ.get("MLCAT_CONN_ID", "mlcat_default"),
        "mlflow_conn_id": os.environ.get("MLCAT_MLFLOW_CONN_ID"),
    }
