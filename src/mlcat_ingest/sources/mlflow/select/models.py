"""Joins logged models to the runs that made them, and finds external ones.

A model is external if no run names it as its output: an agent, an application. Its metrics are
logged by runs; MLflow starts one where a program has none, with a random name and nothing else.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    IDS_A_LISTING,
    SAFE_ID,
    ModelFilter,
)
from mlcat_ingest.sources.mlflow.values.records import (
    NOTE_TAG,
    LoggedModel,
    MeasuredModel,
    Run,
)

# A model can be logged to a run that has ended; a day later it is not looked for any more.
_LATE_MS: Final = 86_400_000
_CLOCKS_DIFFER_MS: Final = 3_600_000
"""Runs start by the clocks of those who log them, and models are made by that of the server."""

HELD_MODELS: Final = 5_000
"""Logged models that wait for their runs while those of one run's metrics are looked for."""

EXTERNAL_MODELS: Final = 500
"""External models that a pass over changes reads again, those that were made last."""

ListModels = Callable[[ModelFilter], Iterator[Sequence[LoggedModel]]]


class _Measurements(NamedTuple):
    model: MeasuredModel
    experiment_id: str
    keys: frozenset[str]


def holds_only_metrics(run: Run) -> bool:
    """Return whether a run has metrics, and nothing else that its user gave it but a name.

    The datasets of metrics are those of the run, too.
    """
    if run.params or run.model_outputs or not run.metrics or NOTE_TAG in run.tags:
        return False
    return all(tag.startswith("mlflow.") for tag in run.tags)


def _last_metric_ms(run: Run) -> int:
    """Return when the last metric was logged: the models of a run's metrics were made before."""
    return max(run.start_time_ms or 0, *(metric.timestamp_ms or 0 for metric in run.metrics))


class ExternalModels:
    """External models of listings, and the runs that logged their metrics.

    Cost: holds the models until they are taken, and some words for each run that logged metrics of
    one, until that run comes.
    """

    def __init__(self, *, keep: bool) -> None:
        """Start with none; without `keep` there are no models to take."""
        self._keep = keep
        self._awaits_runs = True
        self._models: list[LoggedModel] = []
        self._by_run: dict[str, list[_Measurements]] = {}

    def add(self, models: Iterable[LoggedModel]) -> None:
        """Add those of `models` that are external."""
        for model in models:
            if model.is_external:
                if self._awaits_runs:
                    self._add_runs(model)
                if self._keep:
                    self._models.append(model)

    def _add_runs(self, model: LoggedModel) -> None:
        if not model.metric_runs:
            return
        name = MeasuredModel(model.model_id, model.name or model.model_id)
        keys = frozenset(metric.key for metric in model.metrics)
        for run_id in model.metric_runs:
            measurements = self._by_run.setdefault(run_id, [])
            measurements.append(_Measurements(name, model.experiment_id, keys))

    def forget_runs(self) -> None:
        """Forget who logged metrics: no run comes any more."""
        self._awaits_runs = False
        self._by_run.clear()

    def take(self) -> list[LoggedModel]:
        """Return the models that were added since the last call."""
        taken, self._models = self._models, []
        return taken

    def measured_by(self, run: Run) -> tuple[MeasuredModel, ...]:
        """Return the models of which `run`, which holds only metrics, holds the metrics."""
        measurements = self._by_run.pop(run.run_id, ())
        if not measurements or not holds_only_metrics(run):
            return ()
        here = [
            measurement
            for measurement in measurements
            if measurement.experiment_id == run.experiment_id
        ]
        keys = frozenset().union(*(measurement.keys for measurement in here))
        if not here or any(metric.key not in keys for metric in run.metrics):
            return ()
        return tuple(sorted({measurement.model for measurement in here}))


class LoggedModels:
    """The logged models of a workspace, from one listing that is read as runs need it.

    MLflow lists them in the order they were made, much as it lists runs, so what runs need comes
    up as they are read, and is forgotten once they have it. A model is looked for there only as far
    as its run is likely to have made it, and then asked for by its id: it was logged long after the
    run's end, or it is gone.

    Cost: one listing of all logged models, and a request for each 100 ids a page of runs asks for;
    holds those that were listed before their run.
    """

    def __init__(
        self,
        pages: ListModels,
        external: ExternalModels,
        is_wanted: Callable[[LoggedModel], bool],
    ) -> None:
        """Keep `pages`, which begins the listing when first needed; add to `external` models.

        Only models that are wanted are held: those that a run may come for, or a version names.
        """
        self._begin = pages
        self._pages: Iterator[Sequence[LoggedModel]] | None = None
        self._waiting: dict[str, LoggedModel] = {}
        self._external = external
        self._is_wanted = is_wanted
        self._made_ms = 0
        self._in_order = True

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the listed models that `run` made, by id, and forget them."""
        if not run.model_outputs:
            return {}
        models = (self._made_by(run, output.model_id) for output in run.model_outputs)
        result = {
            model.model_id: model for model in models if model is not None and not model.is_external
        }
        self.forget(run)
        return result

    def _made_by(self, run: Run, model_id: str) -> LoggedModel | None:
        until_ms = None if run.ended_at_ms is None else run.ended_at_ms + _LATE_MS
        return self.find(model_id, until_ms)

    def measured_by(self, run: Run) -> tuple[MeasuredModel, ...]:
        """Return the external models of which `run` holds the metrics, and nothing else."""
        if holds_only_metrics(run):
            until_ms = _last_metric_ms(run) + _CLOCKS_DIFFER_MS
            while (
                self._in_order
                and self._made_ms <= until_ms
                and len(self._waiting) < HELD_MODELS
                and self._read_page()
            ):
                pass
        return self._external.measured_by(run)

    def load(self, runs: Sequence[Run]) -> None:
        """Read on to the models that `runs` made, and ask by id for those that do not come up."""
        absent = {
            output.model_id
            for run in runs
            for output in run.model_outputs
            if self._made_by(run, output.model_id) is None
        }
        for piece in chunks(sorted(filter(SAFE_ID.fullmatch, absent)), IDS_A_LISTING):
            for page in self._begin(ModelFilter(model_ids=tuple(piece))):
                self._waiting.update((model.model_id, model) for model in page)

    def load_named(self, model_ids: Sequence[str]) -> None:
        """Do nothing: the rest of the listing has the models that versions name."""

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if it is listed, and made at `until_ms` or before where that is given."""
        while model_id not in self._waiting:
            too_late = self._in_order and until_ms is not None and self._made_ms > until_ms
            if too_late or not self._read_page():
                return None
        return self._waiting[model_id]

    def forget(self, run: Run) -> None:
        """Drop the models that `run` made."""
        for output in run.model_outputs:
            self._waiting.pop(output.model_id, None)

    def read_rest(self, named: Container[str]) -> Iterator[None]:
        """Read the rest of the listing, page by page, and hold only models that are `named`.

        No further run comes, so all others can be forgotten.
        """
        self._external.forget_runs()
        while True:
            self._waiting = {key: model for key, model in self._waiting.items() if key in named}
            if not self._read_page():
                return
            yield

    def _read_page(self) -> bool:
        if self._pages is None:
            self._pages = self._begin(ALL_MODELS)
        page = next(self._pages, None)
        for model in page or ():
            if self._is_wanted(model):
                self._waiting[model.model_id] = model
            made_ms = model.created_at_ms or 0
            self._in_order &= made_ms >= self._made_ms
            self._made_ms = made_ms
        self._external.add(page or ())
        return page is not None


class RecentModels:
    """The logged models that a few runs made, asked for by these runs instead of listed whole.

    Cost: a request for each 100 runs that made models, for each 100 models that are asked for by
    their ids, and one where a run may hold the metrics of an external model; holds the models of
    one page of runs.
    """

    def __init__(self, pages: ListModels, external: ExternalModels) -> None:
        """Keep `pages`, which lists what fits a filter; look up metrics in `external`."""
        self._pages = pages
        self._waiting: dict[str, LoggedModel] = {}
        self._external = external
        self._knows_newest = False

    def newest_external(self, count: int) -> Iterator[Sequence[LoggedModel]]:
        """Yield the external models that were made last, `count` at most."""
        self._knows_newest = True
        yield from self._pages(ModelFilter(newest_external=count))

    def measured_by(self, run: Run) -> tuple[MeasuredModel, ...]:
        """Return the external models of which `run` holds the metrics, and nothing else."""
        if not self._knows_newest and holds_only_metrics(run):
            for page in self.newest_external(EXTERNAL_MODELS):
                self._external.add(page)
        return self._external.measured_by(run)

    def load(self, runs: Sequence[Run]) -> None:
        """Ask for the models that `runs` made, and drop all others."""
        self._waiting = {}
        for piece in chunks([run.run_id for run in runs if run.model_outputs], IDS_A_LISTING):
            self._keep(ModelFilter(run_ids=tuple(piece)))

    def load_named(self, model_ids: Sequence[str]) -> None:
        """Ask for models by their ids, too."""
        for piece in chunks(sorted(filter(SAFE_ID.fullmatch, set(model_ids))), IDS_A_LISTING):
            self._keep(ModelFilter(model_ids=tuple(piece)))

    def _keep(self, only: ModelFilter) -> None:
        for page in self._pages(only):
            self._waiting.update((model.model_id, model) for model in page)

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the models that `run` made, by id."""
        models = (self._waiting.get(output.model_id) for output in run.model_outputs)
        return {
            model.model_id: model for model in models if model is not None and not model.is_external
        }

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if it was asked for and is there."""
        del until_ms
        return self._waiting.get(model_id)

    def forget(self, run: Run) -> None:
        """Do nothing: the next page drops them."""
