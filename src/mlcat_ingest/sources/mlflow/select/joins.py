"""Small indexes over MLflow's listings, so that runs are joined without a request a run."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mlcat_ingest.sources.mlflow.read.listing import chunks, entries_of
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, ModelFilter
from mlcat_ingest.sources.mlflow.values.joined import JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelVersion, Run, number_of

_MODEL_URI: Final = "models:/m-"
# A model can be logged to a run that has ended; a day later it is not looked for any more.
_LATE_MS: Final = 86_400_000

HELD_ENTRIES: Final = 20_000
"""Parameters, metrics and tags of runs that versions hold while they wait for lower ones: those of
500 ordinary runs."""
_VERSION_ENTRIES: Final = 20

SAFE_ID: Final = re.compile(r"[\w.-]+")
"""An id that may stand in a filter of MLflow's search language."""

_Key = tuple[str, str]


class VersionsByOrigin:
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

    def every(self) -> Iterator[ModelVersion]:
        """Yield the versions that were not taken."""
        yield from self._alone
        for versions in (*self._by_run.values(), *self._by_model.values()):
            yield from versions

    def names(self) -> Iterable[str]:
        """Return the names of the registered models that have a version."""
        return self._newest


def logged_model_id(version: ModelVersion) -> str | None:
    """Return the id of the logged model a version was made from.

    MLflow's REST listing leaves `model_id` empty; the id then stands in the version's source.
    """
    if version.model_id:
        return version.model_id
    source = version.source or ""
    return source[len("models:/") :].partition("/")[0] if source.startswith(_MODEL_URI) else None


class VersionOrder:
    """Holds versions back until all lower ones of their registered model were yielded.

    A service that computes which version of a set is the latest compares each new one with the
    latest it has, so they have to be written in ascending order. Runs are listed in another order,
    and the run of a lower version may never come up. So where those that wait hold more than
    `HELD_ENTRIES`, the lower ones go first without their runs; they are yielded once more if their
    run comes up after all.
    """

    def __init__(
        self,
        awaited: Iterable[ModelVersion],
        without_run: Callable[[ModelVersion], JoinedVersion],
    ) -> None:
        """Keep the order of `awaited`; any other version goes as it comes."""
        by_name: dict[str, list[ModelVersion]] = {}
        for version in awaited:
            by_name.setdefault(version.name, []).append(version)
        self._awaited: dict[str, deque[ModelVersion]] = {
            name: deque(sorted(versions, key=lambda one: number_of(one.version)))
            for name, versions in by_name.items()
        }
        self._waiting = {_key(one) for versions in by_name.values() for one in versions}
        self._without_run = without_run
        self._held: dict[_Key, JoinedVersion] = {}
        self._held_entries = 0

    def add(self, record: JoinedVersion) -> Iterator[JoinedVersion]:
        """Take a version with its run, and yield those whose turn it is."""
        key = _key(record.version)
        if key not in self._waiting:
            yield record
            return
        self._held[key] = record
        self._held_entries += _entries(record)
        yield from self._ready(record.version.name)
        while self._held_entries > HELD_ENTRIES:
            yield from self._up_to(next(iter(self._held)))

    def rest(self, names: Iterable[str]) -> Iterator[JoinedVersion]:
        """Yield all awaited versions of the models `names`, and those below what is held."""
        while self._held:
            yield from self._up_to(next(iter(self._held)))
        for name in names:
            for version in self._awaited.pop(name, ()):
                yield self._take(version)

    def _ready(self, name: str) -> Iterator[JoinedVersion]:
        versions = self._awaited[name]
        while versions and (_key(versions[0]) in self._held or not _has_run(versions[0])):
            yield self._take(versions.popleft())

    def _up_to(self, key: _Key) -> Iterator[JoinedVersion]:
        versions = self._awaited[key[0]]
        while key in self._held:
            yield self._take(versions.popleft())
        yield from self._ready(key[0])

    def _take(self, version: ModelVersion) -> JoinedVersion:
        key = _key(version)
        self._waiting.discard(key)
        held = self._held.pop(key, None)
        if held is None:
            return self._without_run(version)
        self._held_entries -= _entries(held)
        return held


def _key(version: ModelVersion) -> _Key:
    return version.name, version.version


def _has_run(version: ModelVersion) -> bool:
    return bool(version.run_id or logged_model_id(version))


def _entries(record: JoinedVersion) -> int:
    """Return about how much a version holds, in parameters, metrics and tags."""
    return _VERSION_ENTRIES + (0 if record.run is None else entries_of([record.run.run]))


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

    def load_named(self, model_ids: Sequence[str]) -> None:
        """Do nothing, likewise."""

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

    Cost: a request for each 100 runs that made models, and for each 100 models that are asked for
    by their ids; holds the models of one page of runs.
    """

    def __init__(self, pages: Callable[[ModelFilter], Iterator[Sequence[LoggedModel]]]) -> None:
        """Keep `pages`, which lists what fits a filter."""
        self._pages = pages
        self._waiting: dict[str, LoggedModel] = {}

    def load(self, runs: Sequence[Run]) -> None:
        """Ask for the models that `runs` made, and let go of all others."""
        self._waiting = {}
        for some in chunks([run.run_id for run in runs if run.model_outputs], IDS_A_LISTING):
            self._keep(ModelFilter(run_ids=tuple(some)))

    def load_named(self, model_ids: Sequence[str]) -> None:
        """Ask for models by their ids, too."""
        for some in chunks(sorted(filter(SAFE_ID.fullmatch, set(model_ids))), IDS_A_LISTING):
            self._keep(ModelFilter(model_ids=tuple(some)))

    def _keep(self, only: ModelFilter) -> None:
        for page in self._pages(only):
            self._waiting.update((model.model_id, model) for model in page)

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the models that `run` made, by id."""
        named = (output.model_id for output in run.model_outputs)
        return {name: self._waiting[name] for name in named if name in self._waiting}

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if it was asked for and is there."""
        del until_ms
        return self._waiting.get(model_id)

    def forget(self, run: Run) -> None:
        """Do nothing: the next page lets go of them."""
