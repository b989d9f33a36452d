"""Which groups a run changed, whoever of their members it wrote."""

import pytest

from mlcat_ingest.client.base import CatalogFacts
from mlcat_ingest.metadata.proposal import Entity
from support.fakes import FakeSink, group_urn, model_urn
from support.recipes import run


def model(name: str, *groups: str, note: str = "") -> Entity:
    properties = {"name": name, "groups": list(groups), "description": note}
    return Entity(model_urn(name), {"mlModelProperties": properties})


def a_group(name: str, note: str = "") -> Entity:
    return Entity(group_urn(name), {"mlModelGroupProperties": {"name": name, "description": note}})


@pytest.fixture
def sink() -> FakeSink:
    sink = FakeSink()
    groups = [a_group(name) for name in "abc"]
    run(sink, *groups, model("r", group_urn("a")), model("s", group_urn("b"), group_urn("c")))
    return sink


def test_what_is_as_it_was_changes_no_group(sink: FakeSink) -> None:
    report = run(sink, a_group("a"), model("r", group_urn("a")))
    assert (report.changed_groups, report.changed_group_urns) == (0, ())


def test_a_group_is_changed_by_its_own_properties(sink: FakeSink) -> None:
    report = run(sink, a_group("a", "more"), a_group("b"), model("r", group_urn("a")))
    assert report.changed_group_urns == (group_urn("a"),)


def test_a_member_changes_all_its_groups(sink: FakeSink) -> None:
    report = run(sink, model("s", group_urn("b"), group_urn("c"), note="more"))
    assert report.changed_group_urns == (group_urn("b"), group_urn("c"))


def test_a_member_that_moves_changes_the_group_that_it_leaves(sink: FakeSink) -> None:
    report = run(sink, model("r", group_urn("b")))
    assert report.changed_group_urns == (group_urn("a"), group_urn("b"))


def test_a_member_that_is_removed_changes_its_group(sink: FakeSink) -> None:
    gone = Entity(model_urn("r"), {"status": {"removed": True}})
    assert run(sink, gone).changed_group_urns == (group_urn("a"),)


def test_what_the_catalog_refuses_changed_nothing(sink: FakeSink) -> None:
    sink.refuse = {model_urn("r")}
    report = run(sink, model("r", group_urn("a"), note="more"))
    assert (report.rejected, report.changed_groups) == (1, 0)


def test_the_number_counts_all_and_the_first_are_named(
    sink: FakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.pipeline.report.tally.CHANGED_GROUPS", 3)
    some = [group_urn(f"new{at}") for at in range(5)]
    report = run(sink, *(model(f"n{at}", some[at % 5]) for at in range(20)))
    assert report.changed_groups == 5
    assert len(report.changed_group_urns) == 3
    assert set(report.changed_group_urns) < set(some)


def test_a_group_is_named_as_it_is_stored_whatever_characters_it_has(sink: FakeSink) -> None:
    urn = group_urn("a\u202eb")
    assert run(sink, model("r", urn)).changed_group_urns[-1] == urn


def test_the_report_has_the_address_of_the_catalogs_pages(
    sink: FakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = CatalogFacts(group_page="https://pages.example/entity/{urn}")
    monkeypatch.setattr(FakeSink, "facts", facts)
    assert run(sink, a_group("a")).group_page == facts.group_page
