"""Several write one entity of a catalog that checks no versions, in every order there is."""

from collections.abc import Mapping, Sequence
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.flow import Cancellation
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.write.conflicts import read_stored
from mlcat_ingest.pipeline.write.delivery import Delivery
from support.fakes import group_urn, model_urn
from support.interleaving import SteppedSink, Turns

HOME = "mlModelProperties"
URN = model_urn("contested")
PASSES = "abc"
seeds = st.integers(0, 2**32 - 1)


class Unhurried(Cancellation):
    """Makes no pauses: whose turn it is decides, not the clock."""

    def pause(self, seconds: float) -> None:
        del seconds


def ingest(sink: SteppedSink, writer: str, entry: str) -> None:
    """Write what the source of `writer` says: entries of this pass, and a shared one."""
    fresh: Mapping[str, Aspect] = {
        "globalTags": {"tags": [tag(f"{writer}-{entry}")]},
        HOME: {
            "groups": [group_urn("shared"), group_urn(f"{writer}-{entry}")],
            "customProperties": {f"{writer}-{entry}": "x", "shared": "x"},
        },
    }
    merge = partial(merge_entity, rules=MergeRules(Writer(writer)))
    merged = merge(
        Entity(URN, fresh), read_stored(sink, StateSession(), [Entity(URN, fresh)]).get(URN)
    )
    delivery = Delivery(RunContext(sink, Ledger(Tally(writer)), cancellation=Unhurried()), merge)
    assert not any(one.refusals for one in delivery.deliver([merged]))


def tag(name: str) -> Aspect:
    return {"tag": f"urn:li:tag:{name}"}


def people_add(sink: SteppedSink, entry: str) -> None:
    for number in range(3):
        assert sink.turns is not None
        sink.turns.step()
        name = f"people-{entry}-{number}"
        sink.add(URN, "globalTags", "tags", tag(name))
        sink.add(URN, HOME, "groups", group_urn(name))


def entries(sink: SteppedSink) -> tuple[list[str], list[str], list[str]]:
    """Return the tags, groups and custom properties that the entity has."""
    stored = sink.stored[URN]
    properties = stored[HOME]
    custom = (key for key in properties["customProperties"] if not key.startswith("mlcat."))
    tags = (one["tag"] for one in stored["globalTags"]["tags"])
    return sorted(tags), sorted(properties["groups"]), sorted(custom)


def expected(names: Sequence[str], writers: Sequence[str]) -> tuple[list[str], ...]:
    return (
        sorted(tag(name)["tag"] for name in names),
        sorted(map(group_urn, [*names, "shared"])),
        sorted([*(name for name in names if name.startswith(tuple(writers))), "shared"]),
    )


@given(seeds)
def test_two_writers_end_with_what_their_sources_say(seed: int) -> None:
    sink = SteppedSink()
    for entry in PASSES:
        sink.turns = Turns(seed)
        sink.turns.run({one: partial(ingest, sink, one, entry) for one in ("one", "two")})
        assert entries(sink) == expected([f"one-{entry}", f"two-{entry}"], ("one", "two"))


@given(seeds)
def test_what_people_add_while_a_writer_writes_stays(seed: int) -> None:
    sink = SteppedSink()
    ingest(sink, "one", "before")
    added: list[str] = []
    for entry in PASSES:
        sink.turns = Turns(seed)
        people = partial(people_add, sink, entry)
        sink.turns.run({"one": partial(ingest, sink, "one", entry), "people": people})
        added.extend(f"people-{entry}-{number}" for number in range(3))
        assert entries(sink) == expected([f"one-{entry}", *added], ("one",))
