"""What a pass reads of a workspace: all runs, those in shards, or some by their ids."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import ClassVar, Final

from mlcat_ingest.core.paging import chunks
from mlcat_ingest.metadata.aliases import Sighting, listing
from mlcat_ingest.sources.base import Runs
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, Reader, RunFilter
from mlcat_ingest.sources.mlflow.select.joins import VersionsByOrigin
from mlcat_ingest.sources.mlflow.values.joined import JoinedExperiment, JoinedRecord, JoinedRun
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)

ALIASES_LISTED: Final = "aliases"
"""Key of a checkpoint: when the aliases of a workspace were listed, and those by model."""

_CLOCK_MS: Final = 2_000
"""How far the time of a server's reply may be from that of what it says: they are whole seconds."""

_GENERATIONS: Final = 20
"""Generations of copies of versions whose names are asked for."""


class EveryRun:
    """All that the recipe asks for: the runs of the filter `only`.

    With `listed_only`, runs are only listed, and mapped to bare entities.

    A reading fills in what the workspace lists: `experiments` whose runs are read, registered
    models and versions. `experiment_ids` are those of all experiments that the recipe asks for;
    it `is_whole` if these are all that there are.
    """

    lists_all: ClassVar = True
    """True if every run of the filter is listed."""
    by_ids: ClassVar = False
    """True for a few runs: they may have unknown children, and no external model comes alone."""

    def __init__(
        self,
        reader: Reader,
        only: RunFilter,
        *,
        list_runs: Callable[..., Iterator[list[Run]]] | None = None,
        listed_only: bool = False,
        shard: Collection[str] | None = None,
    ) -> None:
        """Read the runs of `only` with `reader`, or with a `list_runs` that counts them.

        With a `shard` only those of its experiments, and nothing else: versions of one model are
        made from several experiments.
        """
        self._reader = reader
        self._lister = list_runs or reader.runs
        self.only = only
        self.listed_only = listed_only
        self.shard = shard
        self.experiments: dict[str, Experiment] = {}
        self.experiment_ids: list[str] = []
        self.is_whole = True
        self.registered: dict[str, RegisteredModel] = {}
        self.versions = VersionsByOrigin()
        self.listed_ms: tuple[int, int]
        """When the registered models were listed: the window, by the server's clock."""

    def registry(self) -> tuple[list[RegisteredModel], list[ModelVersion]]:
        """Return the registered models and the versions to join."""
        begin_ms = self._reader.connection.clock_ms() - _CLOCK_MS
        models = [*chain.from_iterable(self._reader.registered_models())]
        self.listed_ms = begin_ms, self._reader.connection.clock_ms() + _CLOCK_MS
        return models, [*chain.from_iterable(self._reader.model_versions())]

    def sightings(self, model: RegisteredModel) -> Iterable[Sighting]:
        """Return where the aliases of a listed model were seen: by this listing, and before."""
        return listing(model.aliases, *self.listed_ms)

    def models(self) -> Sequence[str]:
        """Return the names of the registered models that are read whatever runs there are."""
        # Where only some experiments are asked for, models registered from others stay out.
        return list(self.registered) if self.is_whole else []

    def awaited(self) -> Iterable[ModelVersion]:
        """Return the versions to read."""
        return self.versions.every()

    def models_left(self, names: Sequence[str], started: Collection[str]) -> Iterable[str]:
        """Return the models whose awaited versions are read without their runs, too.

        `names` are those of `models`; a version of the `started` ones was read.
        """
        if self.only.limit is not None:
            return ()  # a limit is one of runs: of versions it leaves theirs
        return (*(self.versions.newest if self.is_whole else names), *started)

    def lost(self) -> Iterable[str]:
        """Return the names of the registered models of which something may be deleted."""
        return ()

    def external_models(
        self, newest: Iterable[Sequence[LoggedModel]]
    ) -> Iterable[Sequence[LoggedModel]]:
        """Return the external models to read in pages where not all are listed, some twice."""
        return newest

    def runs(self) -> Iterator[list[Run]]:
        """Yield the runs in pages, each once."""
        return self._lister(list(self.experiments), only=self.only)


class NamedRuns(EveryRun):
    """Some runs; experiments and registered models come with their runs.

    So do the versions made from them. Named registered models come with all their versions, those
    without a run that is read, without it. Where the recipe leaves experiments out, they come only
    with the runs that it selects.

    `found_ids` are those of the runs that were read.

    Cost: the listings of experiments, registered models and versions, of few named models alone
    where no run is read; a request for each 100 ids. All runs are listed too where children are
    collapsed into their parents.
    """

    lists_all = False
    by_ids = True

    def __init__(
        self, reader: Reader, only: RunFilter, named: Runs, *, listed_only: bool = False
    ) -> None:
        """Read what is `named`, as far as it is in `only`, without its limit."""
        super().__init__(reader, only, listed_only=listed_only)
        self._named = named
        self.found_ids: set[str] = set()

    def registry(self) -> tuple[list[RegisteredModel], list[ModelVersion]]:
        """Return the listings, where no run is read of named models and their versions alone.

        With these come those that they are copies of.
        """
        names = self._named.models
        if not names or self._named.ids or not self.is_whole:
            return super().registry()
        self._reader.narrow_registry(names)
        models, versions = super().registry()
        known = {*names, *(version.name for version in versions)}
        for _ in range(_GENERATIONS):
            named = {version.copied_name[0] for version in versions if version.copied_name}
            missing = sorted(named - known)
            if not missing:
                break
            self._reader.narrow_registry(missing)
            known.update(missing)
            versions += chain.from_iterable(self._reader.model_versions())
        return models, versions

    def sightings(self, model: RegisteredModel) -> Iterable[Sighting]:
        """Return where the aliases of a listed model were seen: by this listing, and by events."""
        moves = self._named.moves.get((self._reader.workspace, model.name), ())
        return (*moves, *super().sightings(model))

    def models(self) -> Sequence[str]:
        """Return the named models, unless they come only with runs."""
        return self._named.models if self.is_whole else ()

    def models_left(self, names: Sequence[str], started: Collection[str]) -> Iterable[str]:
        """Return the named models, where they come only with runs those that have `started`."""
        return names or [name for name in self._named.models if name in started]

    def lost(self) -> Iterable[str]:
        """Return the models that are said to be deleted, or to have lost a version."""
        return self._named.deleted

    def runs(self) -> Iterator[list[Run]]:
        """Yield the runs of the ids and, where named models come only with runs, theirs."""
        names, versions = self._named.models, self.versions.every()
        made_from = (one.run_id for one in versions if one.run_id and one.name in names)
        ids = dict.fromkeys((*self._named.ids, *(() if self.is_whole else made_from)))
        for piece in chunks(ids, IDS_A_LISTING):
            only = replace(self.only, limit=None, run_ids=tuple(piece))
            yield from self._reader.runs(list(self.experiments), only=only)

    def with_runs(
        self, pages: Iterable[Sequence[JoinedRecord]]
    ) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the pages, each experiment with the first of its runs."""
        pending: dict[str, JoinedRecord] = {}
        for page in pages:
            experiments = [record for record in page if isinstance(record, JoinedExperiment)]
            pending.update((record.experiment.experiment_id, record) for record in experiments)
            runs = [record.run for record in page if isinstance(record, JoinedRun)]
            self.found_ids.update(run.run_id for run in runs)
            ids = {run.experiment_id for run in runs}
            if not experiments:
                yield [*(pending.pop(id_) for id_ in sorted(ids & pending.keys())), *page]
