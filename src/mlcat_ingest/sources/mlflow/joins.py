"""Small indexes over MLflow's listings, so that runs are joined without a request a run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mlcat_ingest.sources.mlflow.mapping.version import number_of
from mlcat_ingest.sources.mlflow.reader import IDS_A_LISTING, ModelFilter
from mlcat_ingest.sources.mlflow.records import LoggedModel, ModelVersion, Run

_MODEL_URI: Final = "models:/m-"
# A model can be logged to a run that has ended; a day later it is not looked for any more.
_LATE_MS: Final = 86_400_000


class Versions:
    """The versions of all registered models, by the run or logged model they were made from.

    Cost: holds every version until its run was read.
    """

    def __init__(self, pages: Iterable[Sequence[ModelVersion]]) -> None:
        """Read all versions."""
        self._by_run: dict[str, list[ModelVersion]] = {}
        self._by_model: dict[str, list[ModelVersion]] = {}
        self._alone: list[ModelVersion] = []
        self._newest: dict[str, str] = {}
        for page in pages:
            for version in page:
                self._add(version)

    def _add(self, version: ModelVersion) -> None:
        newest = self._newest.get(version.name)
        if newest is None or number_of(version.version) > number_of(newest):
            self._newest[version.name] = version.version
        model_id = logged_model_id(version)
        if version.run_id:
            self._by_run.setdefault(version.run_id, []).append(version)
        elif model_id is not None:
            self._by_model.setdefault(model_id, []).append(version)
        else:
            self._alone.append(version)

    def newest(self, name: str) -> tuple[str, ...]:
        """Return the newest version of registered model `name`, alone in a tuple, or nothing."""
        number = self._newest.get(name)
        return () if number is None else (number,)

    def take(self, run: Run) -> tuple[ModelVersion, ...]:
        """Return the versions made from `run`, and forget them."""
        found = self._by_run.pop(run.run_id, None)
        if not self._by_model:
            return tuple(found) if found else ()
        versions = found or []
        for output in run.model_outputs:
            versions.extend(self._by_model.pop(output.model_id, ()))
        return tuple(versions)

    def by_run(self) -> Mapping[str, Sequence[ModelVersion]]:
        """Return the versions that name a run, by its id, as far as they were not taken."""
        return self._by_run

    def by_model(self) -> Mapping[str, Sequence[ModelVersion]]:
        """Return the versions that name a logged model but no run, by the model's id."""
        return self._by_model

    def without_run(self, *, also_unread: bool) -> Iterator[ModelVersion]:
        """Yield the versions that name no run, and those whose run was not read if asked for."""
        yield from self._alone
        for versions in self._by_model.values():
            yield from versions
        if also_unread:
            for versions in self._by_run.values():
                yield from versions


def logged_model_id(version: ModelVersion) -> str | None:
    """Return the id of the logged model a version was made from.

    MLflow's REST listing leaves `model_id` empty; the id then stands in the version's source.
    """
    if version.model_id:
        return version.model_id
    source = version.source or ""
    return source[len("models:/") :].partition("/")[0] if source.startswith(_MODEL_URI) else None


class LoggedModels:
    """The logged models that runs and versions name, from one listing that is read as needed.

    MLflow lists them in the order they were made, much as it lists runs, so what runs need comes
    up as they are read, and is forgotten once they have it. A model that is gone is looked for only
    as far as its run can have made it.

    Cost: one listing of all logged models, none where nothing names any; holds those that were
    listed before their run.
    """

    def __init__(self, pages: Callable[[], Iterator[Sequence[LoggedModel]]]) -> None:
        """Keep `pages`, which begins the listing when first needed."""
        self._begin = pages
        self._pages: Iterator[Sequence[LoggedModel]] | None = None
        self._waiting: dict[str, LoggedModel] = {}
        self._made_ms = 0
        self._in_order = True

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the listed models that `run` made, by id, and forget them."""
        names = [output.model_id for output in run.model_outputs]
        if not names:
            return {}
        until_ms = None if run.end_time_ms is None else run.end_time_ms + _LATE_MS
        found = ((name, self.find(name, until_ms)) for name in names)
        made = {name: model for name, model in found if model is not None}
        self.forget(run)
        return made

    def load(self, runs: Sequence[Run]) -> None:
        """Do nothing: the listing comes up with the models that runs need."""

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if it is listed, and made at `until_ms` or before where that is given."""
        while model_id not in self._waiting:
            too_late = self._in_order and until_ms is not None and self._made_ms > until_ms
            if too_late or not self._read_page():
                return None
        return self._waiting[model_id]

    def forget(self, run: Run) -> None:
        """Let go of the models that `run` made."""
        for output in run.model_outputs:
            self._waiting.pop(output.model_id, None)

    def _read_page(self) -> bool:
        if self._pages is None:
            self._pages = self._begin()
        page = next(self._pages, None)
        for model in page or ():
            self._waiting[model.model_id] = model
            made_ms = model.created_at_ms or 0
            self._in_order &= made_ms >= self._made_ms
            self._made_ms = made_ms
        return page is not None


class RecentModels:
    """The logged models that a few runs made, asked for by these runs instead of listed whole.

    Cost: a request for each 100 runs that made models; holds the models of one page of runs.
    """

    def __init__(self, pages: Callable[[ModelFilter], Iterator[Sequence[LoggedModel]]]) -> None:
        """Keep `pages`, which lists what fits a filter."""
        self._pages = pages
        self._waiting: dict[str, LoggedModel] = {}

    def load(self, runs: Sequence[Run]) -> None:
        """Ask for the models that `runs` made, and let go of all others."""
        made_by = [run.run_id for run in runs if run.model_outputs]
        self._waiting = {}
        for start in range(0, len(made_by), IDS_A_LISTING):
            some = tuple(made_by[start : start + IDS_A_LISTING])
            for page in self._pages(ModelFilter(run_ids=some)):
                self._waiting.update((model.model_id, model) for model in page)

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the models that `run` made, by id."""
        named = (output.model_id for output in run.model_outputs)
        return {name: self._waiting[name] for name in named if name in self._waiting}

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if there is one of this id."""
        del until_ms
        pages = self._pages(ModelFilter(model_ids=(model_id,)))
        return next((model for page in pages for model in page), None)

    def forget(self, run: Run) -> None:
        """Do nothing: the next page lets go of them."""
