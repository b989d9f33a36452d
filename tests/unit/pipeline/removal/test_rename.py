"""The copy from an old group to a new one: only entries of others, and only those it lacks."""

from collections.abc import Sequence
from typing import Any

import pytest

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.applied import encode, text_of_keys
from mlcat_ingest.pipeline.merge.entity import MergedEntity, bases_of, merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.pipeline.removal.rename import GroupCopier, merge_copy
from mlcat_ingest.pipeline.report.report import EntityCounts
from mlcat_ingest.pipeline.report.tally import Tally
from support.fakes import FakeSink, group_urn

OLD, NEW = group_urn("old"), group_urn("new")
HOME = "mlModelGroupProperties"
RENAMED = {"mlcat.renamed_to": NEW}
COPIED = {**RENAMED, "mlcat.copied_to": NEW}


class RecordingDelivery(list[MergedEntity]):
    """Records what it delivers; what it refuses, it refuses aspect by aspect."""

    refused = ""
    batch_size = 200

    def deliver(self, batch: Sequence[MergedEntity]) -> Sequence[Outcome]:
        self.extend(batch)
        return [
            Outcome(
                one,
                tuple(Refusal(each, "no", 1) for each in one.proposals)
                if one.urn == self.refused
                else (),
            )
            for one in batch
        ]

    def finish(self) -> None:
        """Nothing is left to do."""

    @property
    def written(self) -> dict[str, dict[str, Any]]:
        return {one.urn: {each.aspect_name: each.aspect for each in one.proposals} for one in self}


@pytest.fixture
def delivery() -> RecordingDelivery:
    return RecordingDelivery()


def copy(
    delivery: RecordingDelivery,
    old: dict[str, Any],
    new: dict[str, Any],
    tally: Tally | None = None,
) -> dict[str, Any]:
    """Copy from the old group to the new one; return the aspects written, by group."""
    sink = FakeSink(stored={OLD: old, NEW: new})
    GroupCopier(sink, delivery, Ledger(tally or Tally("t"))).copy(OLD, NEW)
    return delivery.written


def custom(**properties: str) -> dict[str, Any]:
    return {"customProperties": properties}


def test_a_group_with_nothing_of_others_only_gets_its_new_name(delivery: RecordingDelivery) -> None:
    written = copy(delivery, {HOME: {"name": "old"}}, {HOME: {"name": "new"}})
    assert written == {OLD: {HOME: {"name": "old", **custom(**COPIED)}}}


def test_a_group_without_anything_gets_all_of_it(delivery: RecordingDelivery) -> None:
    tags = {"tags": [{"tag": "urn:li:tag:a"}]}
    terms = {"terms": [{"urn": "urn:li:glossaryTerm:a"}], "auditStamp": {"time": 1, "actor": "u"}}
    words = {"description": "theirs"}
    old = {
        HOME: {"name": "old", **custom(team="risk", **{"mlcat.source": "mlflow:a:"})},
        "globalTags": tags,
        "glossaryTerms": terms,
        "editableMlModelGroupProperties": words,
    }
    assert copy(delivery, old, {}) == {}, "a group that is not there is left alone"
    assert copy(delivery, old, {HOME: {"name": "new"}})[NEW] == {
        HOME: {"name": "new", **custom(team="risk")},
        "globalTags": tags,
        "glossaryTerms": terms,
        "editableMlModelGroupProperties": words,
    }


def test_what_the_new_group_has_stays(delivery: RecordingDelivery) -> None:
    owners = [{"owner": f"urn:li:corpuser:{one}", "type": "NONE"} for one in "ab"]
    old = {
        HOME: custom(team="risk", cost="1"),
        "ownership": {"owners": owners[:1], "lastModified": {"time": 1}},
        "editableMlModelGroupProperties": {"description": "old"},
    }
    new = {
        HOME: custom(team="fraud"),
        "ownership": {"owners": owners[1:], "lastModified": {"time": 2}},
        "editableMlModelGroupProperties": {"description": "new"},
    }
    assert copy(delivery, old, new)[NEW] == {
        HOME: custom(team="fraud", cost="1"),
        "ownership": {"owners": owners[::-1], "lastModified": {"time": 2}},
    }


def test_what_a_recipe_wrote_is_not_copied(delivery: RecordingDelivery) -> None:
    owners = [{"owner": f"urn:li:corpuser:{one}", "type": "NONE"} for one in "ab"]
    base = {
        HOME: {"customProperties": text_of_keys(("k",))},
        "globalTags": {"tags": text_of_keys((("urn:li:tag:a", None),))},
        "ownership": {"owners": text_of_keys((("urn:li:corpuser:a", "NONE", None, None),))},
    }
    old = {
        HOME: custom(k="v", **{"mlcat.applied.other": encode(base)}),
        "globalTags": {"tags": [{"tag": "urn:li:tag:a"}]},
        "ownership": {"owners": owners},
    }
    assert copy(delivery, old, {HOME: {}})[NEW] == {"ownership": {"owners": owners[1:]}}


def test_a_copy_is_made_once(delivery: RecordingDelivery) -> None:
    old = {HOME: custom(team="risk", **COPIED)}
    assert copy(delivery, old, {HOME: {}}) == {}


def test_a_copy_that_was_begun_is_completed(delivery: RecordingDelivery) -> None:
    old = {HOME: custom(team="risk", **{**COPIED, "mlcat.copied_to": ""})}
    assert copy(delivery, old, {HOME: {}}) == {
        NEW: {HOME: custom(team="risk")},
        OLD: {HOME: custom(team="risk", **COPIED)},
    }


def test_a_refused_copy_is_reported_with_the_group_that_it_is_of(
    delivery: RecordingDelivery, caplog: pytest.LogCaptureFixture
) -> None:
    delivery.refused, tally = NEW, Tally("t")
    old = {"globalTags": {"tags": [{"tag": "a"}]}, "domains": {"domains": ["urn:li:domain:d"]}}
    copy(delivery, old, {HOME: {}}, tally)
    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == [
        f"metadata by others on {OLD} was not copied to {NEW}: domains: no",
        f"{NEW} was refused: domains: no",
    ]
    report = tally.report()
    assert report.entities == {"mlModelGroup": EntityCounts(read=1, rejected=1)}
    assert [one.urn for one in delivery] == [NEW], "the old one is not marked as copied"


def test_only_aspects_that_people_fill_are_read(
    delivery: RecordingDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FakeSink()
    names: set[str] = set()

    def read_many(_: object, aspects: Sequence[str]) -> dict[str, Any]:
        names.update(aspects)
        return {}

    monkeypatch.setattr(sink, "read_many", read_many)
    GroupCopier(sink, delivery, Ledger(Tally("t"))).copy(OLD, NEW)
    assert {HOME, "ownership", "domains", "editableMlModelGroupProperties"} <= names
    assert names.isdisjoint({"browsePathsV2", "mlModelProperties"})


def test_a_group_leads_to_its_newest_name(delivery: RecordingDelivery) -> None:
    sink = FakeSink(stored={NEW: {HOME: custom(**{"mlcat.renamed_to": OLD})}, OLD: {HOME: {}}})
    assert GroupCopier(sink, delivery, Ledger(Tally("t"))).leads_to(NEW, OLD)
    sink.put(NEW, HOME, {})
    assert not GroupCopier(sink, delivery, Ledger(Tally("t"))).leads_to(NEW, OLD)


def test_a_group_that_was_deleted_for_good_is_not_made_again() -> None:
    merged = merge_copy(Entity(OLD, {HOME: custom(team="risk")}), {})
    assert (merged.change, merged.proposals) == ("unchanged", ())


@pytest.mark.parametrize(
    "stored",
    [
        {NEW: {HOME: {}}},
        {OLD: {"globalTags": {"tags": [{"tag": "a"}]}}},
        {OLD: {"domains": {"domains": ["d"]}}, NEW: {HOME: custom(**{"mlcat.renamed_to": OLD})}},
    ],
    ids=["no old group", "no new group", "renamed back"],
)
def test_nothing_is_copied_without_two_groups(
    delivery: RecordingDelivery, stored: dict[str, Any]
) -> None:
    GroupCopier(FakeSink(stored=stored), delivery, Ledger(Tally("t"))).copy(OLD, NEW)
    assert delivery.written == {}


def test_a_new_name_of_another_type_is_none(delivery: RecordingDelivery) -> None:
    odd: Any = custom(team="risk", **{"mlcat.renamed_to": 7})  # type: ignore[arg-type]
    copy(delivery, {HOME: custom(team="risk")}, {HOME: odd})
    assert delivery.written[OLD][HOME] == custom(team="risk", **COPIED)


def test_what_the_recipe_wrote_is_not_copied_where_its_base_was_dropped(
    delivery: RecordingDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {"tags": [{"tag": "urn:li:tag:ours"}, {"tag": "urn:li:tag:theirs"}]}
    ours = merge_entity(
        Entity(OLD, {"globalTags": {"tags": tags["tags"][:1]}, HOME: {"name": "old"}}),
        None,
        MergeRules(Writer("one")),
    )
    ledger = Ledger(Tally("t"))
    monkeypatch.setattr(ledger.state.entities, "base", bases_of([ours]).get)
    sink = FakeSink(stored={OLD: {"globalTags": tags, HOME: custom(team="risk")}, NEW: {HOME: {}}})
    GroupCopier(sink, delivery, ledger).copy(OLD, NEW)
    assert delivery.written[NEW]["globalTags"] == {"tags": tags["tags"][1:]}


def test_a_copy_costs_two_reads(delivery: RecordingDelivery) -> None:
    sink = FakeSink(stored={OLD: {HOME: custom(team="risk")}, NEW: {HOME: {}}})
    GroupCopier(sink, delivery, Ledger(Tally("t"))).copy(OLD, NEW)
    assert len(sink.reads) == 2
    assert [one.urn for one in delivery] == [NEW, OLD, OLD]


def test_names_in_a_circle_end_somewhere(delivery: RecordingDelivery) -> None:
    names = {NEW: group_urn("b"), group_urn("b"): group_urn("c"), group_urn("c"): group_urn("b")}
    sink = FakeSink()
    for one, new in names.items():
        sink.put(one, HOME, custom(**{"mlcat.renamed_to": new}))
    assert not GroupCopier(sink, delivery, Ledger(Tally("t"))).leads_to(NEW, OLD)
