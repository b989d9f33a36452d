"""Joins runs with registered versions, logged models and parents, without a request a run.

Small indexes over MLflow's listings hold what the listing of runs has not come to yet.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from mlcat_ingest.sources.base import PartitionState
from mlcat_ingest.sources.mlflow.read.listing import id_pieces
from mlcat_ingest.sources.mlflow.read.reader import SAFE_ID, RunFilter
from mlcat_ingest.sources.mlflow.values.joined import RUN, traces_in
from mlcat_ingest.sources.mlflow.values.records import (
    ModelVersion,
    Run,
    number_of,
    parent_of,
    run_id_of,
)

_Key = tuple[str, str]

PARENTS: Final = "parents"
"""Key of a checkpoint: the parents that the recipe leaves out."""

RECENT_RUNS: Final = 5_000
"""Runs that are held as parents, those that were listed or asked for last: 2 MiB."""
_GENERATIONS: Final = 20
"""Generations of parents that are asked for by their ids."""


class VersionsByOrigin:
    """The versions of all registered models, by the run or logged model they were made from.

    `model_ids` are those of all logged models that versions name, `newest` the newest version of
    each registered model, by its name, `by_run` the versions that name a run, by its id, as far as
    they were not taken.

    Cost: holds every version until its run was read.
    """

    def __init__(self, versions: Iterable[ModelVersion] = ()) -> None:
        self.by_run: dict[str, list[ModelVersion]] = {}
        self._by_model: dict[str, list[ModelVersion]] = {}
        self._alone: list[ModelVersion] = []
        self.newest: dict[str, str] = {}
        self._taken: set[str] = set()
        self.model_ids: set[str] = set()
        for version in versions:
            newest = self.newest.get(version.name, version.version)
            self.newest[version.name] = max(newest, version.version, key=number_of)
            model_id = version.model_id
            if model_id is not None:
                self.model_ids.add(model_id)
            if version.run_id:
                self.by_run.setdefault(version.run_id, []).append(version)
            elif model_id is not None:
                self._by_model.setdefault(model_id, []).append(version)
            else:
                self._alone.append(version)

    def take(self, run: Run) -> tuple[ModelVersion, ...]:
        """Return the versions made from `run`, and forget them."""
        versions = list(self.by_run.pop(run.run_id, ()))
        for output in run.model_outputs:
            versions.extend(self._by_model.pop(output.model_id, ()))
        if versions:
            self._taken.add(run.run_id)
        return tuple(versions)

    def has(self, run: Run) -> bool:
        """Return whether versions were made from `run`, also if they were taken."""
        by_model = any(output.model_id in self._by_model for output in run.model_outputs)
        return by_model or run.run_id in self.by_run or run.run_id in self._taken

    def every(self) -> Iterator[ModelVersion]:
        """Yield the versions that were not taken."""
        yield from self._alone
        for versions in (*self.by_run.values(), *self._by_model.values()):
            yield from versions


def with_origins(versions: Iterable[ModelVersion]) -> list[ModelVersion]:
    """Return versions, each copy with its origin, and the run and logged model of that.

    A copy names its origin as that was called then. A version that has the name now is the origin
    only if it was made before, from the same run, and of the same logged model if that is known.
    Source: `copy_model_version` of MLflow 3.17.
    """
    listed = {_key(version): version for version in versions}
    # Origins come before their copies, so chains end and a cycle is none.
    for version in sorted(listed.values(), key=_made_ms):
        origin = listed.get(version.copied_name or _key(version))
        if origin is not None and _is_origin(origin, version):
            listed[_key(version)] = replace(
                version,
                origin=origin,
                run_id=origin.run_id,
                model_id=version.model_id or origin.model_id,
            )
    return list(listed.values())


def _is_origin(origin: ModelVersion, copy: ModelVersion) -> bool:
    # Without a run is the copy of a version that names its run in its source alone. What is
    # registered by hand with the source of a copy lacks the run, too: there the model has to tell.
    tells = copy.model_id or run_id_of(origin.source)
    same_run = copy.run_id == origin.run_id or (tells and not copy.run_id)
    same_model = copy.model_id in {None, origin.model_id}
    return bool(same_run and same_model) and 0 < _made_ms(origin) < _made_ms(copy)


def _made_ms(version: ModelVersion) -> int:
    return version.created_at_ms or 0


def _key(version: ModelVersion) -> _Key:
    return version.name, version.version


class RelatedRun(NamedTuple):
    """A run that may be a parent, and the id that it names as its own parent.

    It is `chosen` if the recipe takes it, whether it is a child or not.
    """

    name: str | None
    parent_id: str | None
    is_deleted: bool
    is_chosen: bool
    is_registered: bool


class ParentRuns:
    """The runs of one workspace that have children, in the trash or not, as one pass finds them.

    MLflow lists a parent before its children, and does not tell that it has any. A parent is known
    from the last pass, or by a child that was listed. A parent that was yielded before its first
    child is read again by its id.

    A run is the child of a run that the recipe reads, itself or as the child of another. A run is
    top-level if it is its own ancestor, or if its parent does not exist, is left out by a filter,
    or is in the trash without it.

    Cost: one request for each 100 runs that have a parent which is not held, and for each 100 of
    their parents; memory for the ids of all parents.
    """

    def __init__(self, state: PartitionState) -> None:
        """Start with what the last pass knew of the parents of runs."""
        left_out = (state.checkpoint or {}).get(PARENTS)
        self._left_out = frozenset(left_out if isinstance(left_out, list) else ())
        traces = traces_in(state.fingerprints(RUN)).items()
        self._before = self._left_out.union(run_id for run_id, one in traces if one.has_children)
        self._seen: set[str] = set()
        self._yielded: set[str] = set()
        self._every: Collection[str] | None = None
        self._held: OrderedDict[str, RelatedRun | None] = OrderedDict()

    def settle(self, every: Collection[str] = ()) -> None:
        """Take `every` parent that there is, and those seen; later listings add none."""
        self._seen.update(every)
        self._every = self._seen

    @property
    def left_out(self) -> list[str]:
        """The ids of parents that were not yielded, which the next pass has to know."""
        return sorted((self._left_out | self._seen) - self._yielded)

    def add(
        self,
        page: Sequence[Run],
        describe: Callable[[Run], RelatedRun],
        list_runs: Callable[..., Iterator[Sequence[Run]]] | None,
    ) -> None:
        """Take note of the parents of some runs; with `list_runs` find these, and theirs."""
        named = {parent for run in page if (parent := parent_of(run))}
        self._seen |= named
        if list_runs is None:
            return
        self._hold(page, describe)
        for _ in range(_GENERATIONS):
            for parent in named & self._held.keys():
                self._held.move_to_end(parent)
            # Not the difference of the sets, which would walk over all that is held.
            unknown = [run_id for run_id in named if run_id not in self._held]
            for run_ids in id_pieces(unknown):
                self._held.update(dict.fromkeys(run_ids))
                for parents in list_runs(only=RunFilter(run_ids=run_ids)):
                    self._hold(parents, describe)
            found = filter(None, map(self._held.get, named))
            named = {parent.parent_id for parent in found if parent.parent_id}

    def _hold(self, runs: Sequence[Run], describe: Callable[[Run], RelatedRun]) -> None:
        for run in runs:
            self._held[run.run_id] = describe(run)
            self._held.move_to_end(run.run_id)
        while len(self._held) > RECENT_RUNS:
            self._held.popitem(last=False)

    def parent_of(self, run: Run, *, include_children: bool) -> tuple[str | None, str | None]:
        """Return the name of the parent of a run of the page that was added last, and its id.

        The id is None if the recipe does not take the parent: without `include_children` it takes
        of children those with a registered version.
        """
        for parent_id, parent in self._ancestors(run.run_id)[1:]:
            is_whole = include_children or parent.is_registered or self.top_of(parent_id) is None
            return parent.name, parent_id if parent.is_chosen and is_whole else None
        return None, None

    def top_of(self, run_id: str) -> str | None:
        """Return the top-most parent of a run of the page that was added last.

        None if the run is top-level itself.
        """
        top: str | None = None
        for (parent_id, parent), (_, child) in pairwise(reversed(self._ancestors(run_id))):
            if parent.is_deleted and not child.is_deleted:
                top = None
            elif top is None and parent.is_chosen:
                top = parent_id
        return top

    def _ancestors(self, run_id: str) -> list[tuple[str, RelatedRun]]:
        """Return a run and its ancestors, up to one that is its own ancestor."""
        ancestors: dict[str, RelatedRun] = {}
        at: str | None = run_id
        while at is not None and (run := self._held.get(at)) is not None:
            if at in ancestors:
                in_cycle = list(ancestors).index(at)
                return list(ancestors.items())[: in_cycle + 1]
            ancestors[at] = run
            at = run.parent_id
        return list(ancestors.items())

    def has_children(self, run: Run) -> bool | None:
        """Return whether a run to be yielded has children, None where that is not known yet."""
        every = self._every
        known = (self._seen, self._before) if every is None else (every,)
        if any(run.run_id in ids for ids in known):
            self._yielded.add(run.run_id)
            return True
        return None if every is None else False

    def corrections(self, *, complete: bool) -> list[str]:
        """Return the ids of runs that were yielded with a wrong `has_children`, and settle all.

        If `complete`, all children were listed, and a parent without a listed child has none any
        more.
        """
        if self._every is not None:
            return []
        self._every = self._seen if complete else self._seen | self._before
        known = self._yielded if complete else self._yielded | self._before
        return sorted(filter(SAFE_ID.fullmatch, self._every ^ known))
