"""Joins runs with registered versions, logged models and parents, without a request a run.

Small indexes over MLflow's listings hold what the listing of runs has not come to yet.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mlcat_ingest.sources.mlflow.read.listing import chunks, entries_of
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, SAFE_ID, RunFilter
from mlcat_ingest.sources.mlflow.values.joined import JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import (
    PARENT_TAG,
    ModelVersion,
    Run,
    name_of,
    number_of,
)

_MODEL_URI: Final = "models:/m-"

HELD_ENTRIES: Final = 20_000
"""Parameters, metrics and tags of runs that versions hold while they wait for lower ones: those of
500 ordinary runs."""
_VERSION_ENTRIES: Final = 20

_Key = tuple[str, str]

RECENT_NAMES: Final = 5_000
"""Runs whose names are held, those that were listed or asked for last: 1 MiB."""


class VersionsByOrigin:
    """The versions of all registered models, by the run or logged model they were made from.

    `model_ids` are those of all logged models that versions name.

    Cost: holds every version until its run was read.
    """

    def __init__(self, pages: Iterable[Sequence[ModelVersion]]) -> None:
        """Index the versions of all `pages`."""
        self._by_run: dict[str, list[ModelVersion]] = {}
        self._by_model: dict[str, list[ModelVersion]] = {}
        self._alone: list[ModelVersion] = []
        self._newest: dict[str, str] = {}
        self.model_ids: set[str] = set()
        for page in pages:
            for version in page:
                self._add(version)

    def _add(self, version: ModelVersion) -> None:
        newest = self._newest.get(version.name)
        if newest is None or number_of(version.version) > number_of(newest):
            self._newest[version.name] = version.version
        model_id = logged_model_id(version)
        if model_id is not None:
            self.model_ids.add(model_id)
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
        made = self._by_run.pop(run.run_id, None)
        if not self._by_model:
            return tuple(made) if made else ()
        versions = made or []
        for output in run.model_outputs:
            versions.extend(self._by_model.pop(output.model_id, ()))
        return tuple(versions)

    def by_run(self) -> Mapping[str, Sequence[ModelVersion]]:
        """Return the versions that name a run, by its id, as far as they were not taken."""
        return self._by_run

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

    MLflow's REST listing leaves `model_id` empty; the id is then in the version's source.
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
        expected: Iterable[ModelVersion],
        without_run: Callable[[ModelVersion], JoinedVersion],
    ) -> None:
        """Keep the order of `expected`; other versions are not held back."""
        by_name: dict[str, list[ModelVersion]] = {}
        for version in expected:
            by_name.setdefault(version.name, []).append(version)
        self._awaited: dict[str, deque[ModelVersion]] = {
            name: deque(sorted(versions, key=lambda version: number_of(version.version)))
            for name, versions in by_name.items()
        }
        self._waiting = {_key(version) for versions in by_name.values() for version in versions}
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
        """Yield all expected versions of the models `names`, and those below what is held."""
        while self._held:
            yield from self._up_to(next(iter(self._held)))
        for name in names:
            for version in self._awaited.pop(name, ()):
                yield self._take(version)

    def _ready(self, name: str) -> Iterator[JoinedVersion]:
        versions = self._awaited[name]
        while versions:
            first = versions[0]
            if _key(first) not in self._held and (first.run_id or logged_model_id(first)):
                return  # its run may still come
            yield self._take(versions.popleft())

    def _up_to(self, key: _Key) -> Iterator[JoinedVersion]:
        versions = self._awaited[key[0]]
        while key in self._held:
            yield self._take(versions.popleft())
        yield from self._ready(key[0])

    def _take(self, version: ModelVersion) -> JoinedVersion:
        key = _key(version)
        self._waiting.discard(key)
        versions = self._held.pop(key, None)
        if versions is None:
            return self._without_run(version)
        self._held_entries -= _entries(versions)
        return versions


def _key(version: ModelVersion) -> _Key:
    return version.name, version.version


def _entries(record: JoinedVersion) -> int:
    """Return about how much a version holds, in parameters, metrics and tags."""
    return _VERSION_ENTRIES + (0 if record.run is None else entries_of([record.run.run]))


class ParentRuns:
    """The runs of one workspace that have children, in the trash or not, as one pass finds them.

    MLflow lists a parent before its children, and does not tell that it has any. A parent is known
    from the last pass, or by a child that was listed. A parent that was yielded before its first
    child is read again by its id.

    Cost: one request for each 100 runs that have a parent whose name is not held; memory for the
    ids of all parents.
    """

    def __init__(self, before: Collection[str] = ()) -> None:
        """Start with the parents `before` this pass."""
        self._before = frozenset(before)
        self._seen: set[str] = set()
        self._yielded: set[str] = set()
        self._every: Collection[str] | None = None
        self._names: OrderedDict[str, str | None] = OrderedDict()

    def settle(self, every: Collection[str]) -> None:
        """Take `every` parent that there is; later listings add none."""
        self._every = every

    def add(
        self, page: Sequence[Run], list_runs: Callable[[RunFilter], Iterator[Sequence[Run]]] | None
    ) -> None:
        """Take note of the parents of some runs; with `list_runs` find all their names."""
        named = {parent for run in page if (parent := run.tags.get(PARENT_TAG))}
        self._seen |= named
        if list_runs is None:
            return
        self._keep_names(page)
        for parent in named & self._names.keys():
            self._names.move_to_end(parent)
        missing = sorted(filter(SAFE_ID.fullmatch, named - self._names.keys()))
        for piece in chunks(missing, IDS_A_LISTING):
            self._names.update(dict.fromkeys(piece))
            for parents in list_runs(RunFilter(run_ids=tuple(piece))):
                self._keep_names(parents)

    def _keep_names(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self._names[run.run_id] = name_of(run)
        while len(self._names) > RECENT_NAMES:
            self._names.popitem(last=False)

    def name_of_parent(self, run: Run) -> str | None:
        """Return the name of the parent of a run of the page that was added last."""
        parent = run.tags.get(PARENT_TAG)
        return self._names.get(parent) if parent else None

    def has_children(self, run: Run) -> bool | None:
        """Return whether a run to be yielded has children, None where that is not known yet."""
        if self._every is not None:
            return run.run_id in self._every
        if run.run_id in self._seen or run.run_id in self._before:
            self._yielded.add(run.run_id)
            return True
        return None

    def corrections(self, *, complete: bool) -> list[str]:
        """Return the ids of runs that were yielded with a wrong `has_children`, and settle all.

        If `complete`, all children were listed, and a parent without a listed child has none any
        more.
        """
        if self._every is not None:
            return []
        every = self._seen if complete else self._seen | self._before
        self.settle(every)
        known = self._yielded if complete else self._yielded | self._before
        return sorted(filter(SAFE_ID.fullmatch, every ^ known))
