"""Shards: a recipe read by several processes side by side, which share nothing but the catalog.

    shards() ─▶ one process: read(shard)  ─▶ finish()
             ─▶ one process: read(shard)  ─▶

A shard may be read at any time, twice, or by somebody new after a crash: what is written is merged
with what is stored. Groups, versions of registered models, and removals come once, from `finish`,
which lists everything itself, so that no removal rests on the word of a shard.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.read.feature_tables import refuse_equal_identities
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import (
    StateOptions,
    StatePolicy,
    StateSession,
    shared_writer_ids,
)
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Capability, Remainder, Shard, Shards, Source
from mlcat_ingest.workflows.ingest import listing_of, state_options_of
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve

MOST: Final = 16
"""Shards of a recipe, unless asked for otherwise."""

LEAST_SIZE: Final = 500
"""Records that are worth a process of their own."""


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """The shards of one source that one process reads; `source` counts the recipe's from 0."""

    source: int
    label: str
    size: int
    keys: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the shard as JSON has it."""
        return {**asdict(self), "keys": list(self.keys)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the shard that `as_data` gave."""
        return cls(data["source"], data["label"], data["size"], tuple(data["keys"]))


class Sharding:
    """A recipe made ready to be read in shards.

    Examples:
        >>> sharding = Sharding(Recipe.load("sharded.yml"))
        >>> shards = sharding.shards(most=2, least_size=1)
        >>> len(shards)
        2
    """

    def __init__(self, recipe: Recipe | ResolvedRecipe) -> None:
        """Resolve the recipe; nothing is contacted.

        Raises:
            RecipeError: something in it is wrong, or it cannot be read in shards.
        """
        self._resolved = recipe if isinstance(recipe, ResolvedRecipe) else resolve(recipe)
        self._recipe = self._resolved.recipe
        sink = self._resolved.sink
        if sink is None or sink.type != "rest":
            written = "none" if sink is None else f"`{sink.type}`"
            raise RecipeError(
                f"shards of the recipe {self._recipe.name!r} write concurrently, which needs a "
                f"sink of type `rest`; the recipe has {written}",
                hint="add `sink: {type: rest, config: {server: …}}`",
            )
        self._sink = sink
        self._writer_ids: Sequence[str] = self._recipe.writer_ids or ()
        for at in range(len(self._resolved.sources)):
            self._source(at)

    def shards(self, most: int = MOST, least_size: int = LEAST_SIZE) -> list[ShardGroup]:
        """Return at most `most` shards a source, of about equal size, the largest first.

        None is smaller than `least_size` records unless a source has fewer.

        Raises:
            RecipeError: a source's options need all of it in one reading, or two sources are one.
            MlcatError: as `Source.read`.

        Cost: see `Source.shards`.
        """
        shard_groups: list[ShardGroup] = []
        self._state_options()
        with ExitStack() as stack:
            places = range(len(self._resolved.sources))
            sources = [stack.enter_context(closing(self._source(at))) for at in places]
            refuse_equal_identities(sources)
            for at, source in enumerate(sources):
                for group in _balance(source.shards(), most, least_size):
                    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
                    keys = tuple(sorted(shard.key for shard in group))
                    label = f"{group[0].label}{more}"
                    shard_groups.append(ShardGroup(at, label, _size(group), keys))
        return shard_groups

    def read(
        self, shard: ShardGroup, progress: OnProgress | None = None, *, again: bool = False
    ) -> Report:
        """Bring what is in `shard` into the catalog; its failure is in the report.

        `again` evaluates what did not change, too: what an attempt wrote that was killed may have
        no results.
        """
        recipe = self._recipe
        if again:
            everything = recipe.evaluate.model_copy(update={"scope": "all"})
            recipe = recipe.model_copy(update={"evaluate": everything})
        state = StateSession(None, replace(self._state_options(), full=False))
        options = RunOptions(recipe, state=state, scope=Shards(frozenset(shard.keys)))
        return self._run([self._source(shard.source)], options, progress)

    def finish(self, progress: OnProgress | None = None) -> Report:
        """Write the records of no shard, and remove deleted ones; call it once all shards are read.

        Cost: one more listing of the sources; runs are not compared with the catalog again.
        """
        sources = [self._source(at) for at in range(len(self._resolved.sources))]
        url = self._recipe.state.url
        options = RunOptions(
            self._recipe,
            state=StateSession(url, self._state_options(), StatePolicy.COPY),
            scope=Remainder(),
            listing=listing_of(self._resolved),
        )
        return self._run(sources, options, progress)

    def _run(
        self, sources: Sequence[Source[Any]], options: RunOptions, progress: OnProgress | None
    ) -> Report:
        sink: Catalog = self._sink.build()
        return PipelineRun(sources, sink, options).execute(progress)

    def _state_options(self) -> StateOptions:
        """Return the options of a state, with the writer id that all processes share."""
        ids = self._writer_ids or shared_writer_ids(self._recipe.state.url, self._recipe.name)
        self._writer_ids = ids
        options = state_options_of(self._recipe, full=True, accept_renaming=False)
        return replace(options, writer_ids=ids)

    def _source(self, at: int) -> Source[Any]:
        """Return a source made anew.

        Raises:
            RecipeError: it cannot be read in shards.
        """
        resolved = self._resolved.sources[at]
        source = resolved.build()
        if Capability.SHARDS in source.capabilities:
            return source
        raise RecipeError(
            f"sources[{at}] of the recipe {self._recipe.name!r}, of type {resolved.type}, cannot "
            "be read in shards",
            hint="move it to another recipe, and run that one before this one",
        )


def _balance(shards: Iterable[Shard], most: int, least_size: int) -> list[list[Shard]]:
    """Return `shards` in at most `most` groups of about equal size, the largest group first.

    No group is larger than an equal share and the largest shard together.
    """
    ranked = sorted(shards, key=lambda shard: (-shard.size, shard.key))
    total = sum(shard.size for shard in ranked)
    count = max(1, min(most, len(ranked), total // max(least_size, 1)))
    groups: list[list[Shard]] = [[] for _ in range(count)]
    lightest = [(0, at) for at in range(count)]
    for shard in ranked:
        size, at = heapq.heappop(lightest)
        groups[at].append(shard)
        heapq.heappush(lightest, (size + shard.size, at))
    return sorted(filter(None, groups), key=_size, reverse=True)


def _size(group: Iterable[Shard]) -> int:
    return sum(shard.size for shard in group)
