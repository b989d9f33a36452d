"""Explanations: whose each entry is, as the bases on the entity say."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

import pytest

from mlcat_ingest.client.base import Reads, StoredAspect, StoredEntity
from mlcat_ingest.errors import CatalogRequestError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.passport import KeptVersion
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.workflows.explain import (
    Explanation,
    _ExplainedEntry,
    explain,
    explanation_lines,
    with_users,
)
from support.fakes import model_urn

URN = model_urn("a")
HOME = "mlModelProperties"


class Holder(Reads):
    """A catalog of one entity."""

    def __init__(self, aspects: Mapping[str, Aspect]) -> None:
        self._stored = {name: StoredAspect(value, "1") for name, value in aspects.items()}

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        stored = {name: aspect for name, aspect in self._stored.items() if name in aspects}
        return dict.fromkeys(urns, stored) if stored else {}


def explained(aspects: Mapping[str, Aspect]) -> Explanation:
    names = [HOME, "globalTags", "ownership", "status", "browsePathsV2"]
    return explain(Holder(aspects), URN, names)


def entries(explanation: Explanation, field: str) -> dict[str | None, _ExplainedEntry]:
    return {one.entry: one for one in explanation.entries if one.field == field}


def written(entity: Entity, *writers: str) -> dict[str, Aspect]:
    """Return what the catalog holds once each of `writers` has written `entity`."""
    stored: dict[str, Aspect] = {}
    for writer in writers:
        held = {name: StoredAspect(value, "1") for name, value in stored.items()}
        for proposal in merge_entity(entity, held, MergeRules(Writer(writer))).proposals:
            stored[proposal.aspect_name] = proposal.aspect
    return stored


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(CatalogRequestError, match="the catalog has no"):
        explained({})


def test_a_base_says_whose_an_entry_is() -> None:
    fresh = {
        "name": "n",
        "description": "d",
        "customProperties": {"mlcat.source": "fake:0:default", "k": "v"},
        "created": {"time": 1, "actor": "urn:li:corpuser:ada"},
    }
    stored = written(Entity(URN, {HOME: fresh}), "prod", "old")
    properties = stored[HOME]
    custom = {**properties["customProperties"], "mlcat.applied.broken": "2 {}", "mine": "1"}
    explanation = explained(
        {
            HOME: {**properties, "description": "by hand", "customProperties": custom},
            "status": {"removed": True},
            "browsePathsV2": {"path": [{"id": "x"}]},
            "ownership": {"owners": [], "ownerTypes": {"t": []}},
        }
    )
    assert explanation.recipes.keys() == {"prod", "old", "broken"}
    assert explanation.recipes["broken"].entries is None
    assert (explanation.sources, explanation.removed) == (("fake:0:default",), True)
    of_properties = entries(explanation, "customProperties")
    assert of_properties.keys() == {"k", "mine"}
    assert (of_properties["k"].written_by, of_properties["k"].recipes) == (
        *("recipe",),
        ("prod", "old"),
    )
    assert of_properties["mine"].written_by == "person or tool"
    description = entries(explanation, "description")[None]
    assert description.written_by == "person or tool"
    assert (description.recipes, description.changed_since) == ((), ("prod", "old"))
    assert entries(explanation, "name")[None].recipes == ("prod", "old")
    assert entries(explanation, "removed")[None].written_by == "anyone"
    assert entries(explanation, "path")[None].written_by == "service"
    assert {one.written_by for one in entries(explanation, "ownerTypes").values()} == {"service"}

    text = "\n".join(line.text for line in explanation_lines(explanation, "prod"))
    assert "broken: its base is unreadable" in text
    assert "soft-deleted" in text
    assert "a person or tool, after recipe prod, old" in text
    assert "old: " in text
    assert "mlcat-ingest retract --recipe-name old" in text
    assert "--recipe-name prod" not in text
    assert "mlcat.applied.broken" not in text
    data = asdict(explanation)
    assert {
        "aspect": HOME,
        "field": "customProperties",
        "entry": "k",
        "value": "v",
        "written_by": "recipe",
        "recipes": ("prod", "old"),
        "changed_since": (),
        "user": "",
    } in data["entries"]


def test_a_base_of_a_state_counts_where_the_entity_has_none() -> None:
    stored = written(Entity(URN, {HOME: {"description": "d"}}), "old")
    known = {"old": "2 {}", "prod": stored[HOME]["customProperties"]["mlcat.applied.old"]}
    explanation = explain(Holder(stored), URN, [HOME], known)
    assert entries(explanation, "description")[None].recipes == ("old", "prod")


def test_many_entries_of_a_field_are_counted_and_hostile_ones_are_harmless() -> None:
    tags = [{"tag": f"urn:li:tag:{name}"} for name in ("\x1b[31m", *map(str, range(60)))]
    lines = [line.text for line in explanation_lines(explained({"globalTags": {"tags": tags}}))]
    assert any("… and 11 more, see --json" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_who_wrote_an_entry_is_named_by_the_version_in_which_it_came() -> None:
    def tags(*names: str) -> Aspect:
        return {"tags": [{"tag": f"urn:li:tag:{name}"} for name in names]}

    kept = [
        KeptVersion(3, tags("a", "b", "c"), 3, "recipe prod, run r"),
        KeptVersion(2, tags("a", "b"), 2, "user jane"),
        KeptVersion(1, tags("a"), 1, "user kim"),
    ]
    of_tags = explained({"globalTags": tags("a", "b", "c")})
    for count, users in ((3, ["kim", "jane", ""]), (2, ["", "", ""]), (0, ["", "", ""])):
        named = with_users(of_tags, {"globalTags": kept[:count]})
        assert [entry.user for entry in named.entries] == users
    rows = [line.text for line in explanation_lines(with_users(of_tags, {"globalTags": kept}))]
    assert [row.rpartition("  ")[2] for row in rows[-3:]] == [
        *("user kim", "user jane", "a person or tool"),
    ]
