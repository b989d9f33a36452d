"""Versions in any order, with passes that are killed between their requests or partly refused.

In the end a search finds of each set the greatest version, and no other; where no version is
refused, it does so at each moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import AspectRejectedError, CatalogUnavailableError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.examples import examples
from support.fakes import FakeSource, model_urn
from support.recipes import a_recipe
from support.versioning import VERSION, WatchingSink, version_of

SETS, NUMBERS = "mn", 8
EVERY = [(name, number) for name in SETS for number in range(1, NUMBERS + 1)]


@dataclass(frozen=True)
class Pass:
    """A run over some versions, in pages of `page`.

    The service is killed at its write `killed_at`, before or after it has stored that. It refuses
    the versions of some entities.
    """

    versions: Sequence[tuple[str, int]]
    page: int
    killed_at: int | None
    has_stored: bool
    refused: frozenset[tuple[str, int]]


PASSES = st.builds(
    Pass,
    versions=st.lists(st.sampled_from(EVERY), unique=True, min_size=1),
    page=st.integers(1, 6),
    killed_at=st.none() | st.integers(1, 6),
    has_stored=st.booleans(),
    refused=st.just(frozenset()) | st.frozensets(st.sampled_from(EVERY), max_size=2),
)


@dataclass
class MortalSink(WatchingSink):
    """Is killed at a write."""

    batch_size: int = 6
    killed_at: int | None = None
    has_stored: bool = False
    count: int = 0

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        self.count += 1
        is_dead = self.killed_at is not None and self.count >= self.killed_at
        if is_dead and not (self.has_stored and self.count == self.killed_at):
            raise CatalogUnavailableError("killed")
        refused = super().write(proposals)
        if is_dead:
            raise CatalogUnavailableError("killed")
        return refused


def run(sink: MortalSink, versions: Sequence[tuple[str, int]], page: int) -> Report:
    entities: list[Entity] = [version_of(*one) for one in versions]
    pages = [entities[start : start + page] for start in range(0, len(entities), page)]
    options = RunOptions(a_recipe("test", evaluate={"enabled": False}))
    sink.count = 0
    return PipelineRun([FakeSource(pages)], sink, options).execute()


@settings(max_examples=examples(100))
@given(passes=st.lists(PASSES, max_size=4), last=st.permutations(EVERY))
def test_a_search_finds_the_greatest_version_alone(
    passes: Sequence[Pass], last: Sequence[tuple[str, int]]
) -> None:
    sink = MortalSink()
    for one in passes:
        sink.killed_at, sink.has_stored = one.killed_at, one.has_stored
        sink.refuse = {(model_urn(f"{name}_{number}"), VERSION) for name, number in one.refused}
        run(sink, one.versions, one.page)
    sink.killed_at, sink.refuse = None, ()
    assert run(sink, last, 5).exit_code == 0
    sink.look()
    # An entity whose version was refused is there: its version cannot be created with `isLatest`.
    if not any(one.refused for one in passes):
        assert sink.wrong == []
    for name in SETS:
        stored = [sink.stored[model_urn(f"{name}_{n}")][VERSION] for n in range(1, NUMBERS + 1)]
        assert [one["isLatest"] for one in stored] == [False] * (NUMBERS - 1) + [True]
