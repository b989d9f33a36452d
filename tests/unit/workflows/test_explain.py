"""Explanations over a catalog that keeps some versions, all of them, or none."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mlcat_ingest.client.base import AspectWrite, Reads, StoredAspect, StoredEntity
from mlcat_ingest.errors import CatalogRequestError
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.workflows.explain import ExplainedEntry, Explanation, explain
from mlcat_ingest.workflows.explain_render import explanation_data, explanation_lines
from support.fakes import model_urn

URN = model_urn("a")
HOME = "mlModelProperties"
TAGS = "globalTags"


@dataclass
class Keeper(Reads):
    """A catalog of one entity with the versions of its aspects, oldest first.

    Versions that are None are not kept any more. Without `numbered` no version is told.
    """

    versions: dict[str, list[AspectWrite | None]]
    numbered: bool = True
    asked: list[Mapping[str, int]] = field(default_factory=list)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        stored = {
            name: StoredAspect(kept[-1].value, str(len(kept)) if self.numbered else None)
            for name, kept in self.versions.items()
            if name in aspects and kept[-1] is not None
        }
        return dict.fromkeys(urns, stored) if stored else {}

    def read_versions(self, urn: str, versions: Mapping[str, int]) -> Mapping[str, AspectWrite]:
        del urn
        self.asked.append(versions)
        found = {name: self.versions[name][number - 1] for name, number in versions.items()}
        return {name: one for name, one in found.items() if one is not None}


def tags(*names: str, **noted: Any) -> AspectWrite:
    return AspectWrite({"tags": [{"tag": f"urn:li:tag:{name}"} for name in names]}, **noted)


def explained(keeper: Reads) -> Explanation:
    return explain(keeper, URN, [HOME, TAGS, "ownership", "status", "browsePathsV2"])


def entries(explanation: Explanation, aspect: str, name: str) -> dict[str, ExplainedEntry]:
    return {
        one.label.removeprefix("urn:li:tag:"): one
        for each in explanation.aspects
        if each.name == aspect
        for each_field in each.fields
        if each_field.name == name
        for one in each_field.entries
    }


def at(explanation: Explanation) -> dict[str, tuple[int | None, bool]]:
    """Return when each tag was written, and whether it may have been earlier."""
    return {
        name: (None if one.write is None else one.write.at_ms, one.or_earlier)
        for name, one in entries(explanation, TAGS, "tags").items()
    }


def test_an_entry_comes_from_the_first_version_that_has_it_ever_since() -> None:
    kept = [
        tags("a", "b", at_ms=1),
        tags("a", at_ms=2),
        tags("a", "b", at_ms=3),
        tags("a", "b", "c", at_ms=4),
    ]
    keeper = Keeper({TAGS: list(kept)})
    assert at(explained(keeper)) == {"a": (1, False), "b": (3, False), "c": (4, False)}
    assert [one[TAGS] for one in keeper.asked] == [4, 3, 2, 1]


def test_versions_are_read_for_all_aspects_at_once_and_no_further_than_needed() -> None:
    first, second = tags("a"), tags("b")
    status = AspectWrite({"removed": False})
    keeper = Keeper({TAGS: [first, first, second], "status": [status]})
    explained(keeper)
    assert keeper.asked == [{TAGS: 3, "status": 1}, {TAGS: 2}]


def test_a_long_history_is_read_for_20_versions() -> None:
    keeper = Keeper({TAGS: [tags("a", at_ms=number) for number in range(1, 31)]})
    assert at(explained(keeper)) == {"a": (11, True)}
    assert len(keeper.asked) == 20


def test_behind_what_is_kept_an_entry_may_be_older() -> None:
    keeper = Keeper({TAGS: [None, tags("a", at_ms=2), tags("a", "b", at_ms=3)]})
    assert at(explained(keeper)) == {"a": (2, True), "b": (3, False)}


def test_without_numbers_only_the_latest_version_is_read() -> None:
    keeper = Keeper({TAGS: [tags("a", at_ms=1), tags("a", at_ms=2)]}, numbered=False)
    assert at(explained(keeper)) == {"a": (2, True)}
    assert keeper.asked == [{TAGS: 0}]


def test_a_catalog_without_history_leaves_the_time_open() -> None:
    class Forgetting(Keeper):
        def read_versions(self, urn: str, versions: Mapping[str, int]) -> Mapping[str, AspectWrite]:
            return Reads.read_versions(self, urn, versions)

    explanation = explained(Forgetting({TAGS: [tags("a")]}))
    assert at(explanation) == {"a": (None, False)}
    assert any("a person or tool" in line.text for line in explanation_lines(explanation))


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(CatalogRequestError, match="the catalog has no"):
        explained(Keeper({}))


def written(entity: Entity, *writers: str) -> dict[str, Aspect]:
    """Return what the catalog holds once each of `writers` has written `entity`."""
    stored: dict[str, Aspect] = {}
    for writer in writers:
        held = {name: StoredAspect(value, "1") for name, value in stored.items()}
        for proposal in merge_entity(entity, held, MergeRules(writer)).proposals:
            stored[proposal.aspect_name] = proposal.aspect
    return stored


def test_a_base_says_whose_an_entry_is() -> None:
    source = {"mlcat.source": "fake:0:default", "k": "v"}
    fresh = {"name": "n", "description": "d", "customProperties": source}
    owner = {"owner": "urn:li:corpuser:ada", "type": "DATAOWNER"}
    stored = written(Entity(URN, {HOME: fresh, "ownership": {"owners": [owner]}}), "prod")
    properties = stored[HOME]
    custom = {**properties["customProperties"], "mlcat.applied.broken": "2 {}", "mine": "1"}
    edited = {**properties, "description": "by hand", "customProperties": custom}
    jane = AspectWrite(edited, actor="urn:li:corpuser:jane", at_ms=1_770_000_000_000)
    keeper = Keeper(
        {
            HOME: [AspectWrite(properties), jane],
            "ownership": [AspectWrite({**stored["ownership"], "owners": []})],
            "status": [AspectWrite({"removed": True})],
            "browsePathsV2": [AspectWrite({"path": [{"id": "x"}]})],
        }
    )
    explanation = explained(keeper)
    assert explanation.recipes == {"prod": 4, "broken": None}
    assert (explanation.sources, explanation.removed) == (("fake:0:default",), True)
    assert set(entries(explanation, HOME, "customProperties")) == {"k", "mine"}
    assert entries(explanation, HOME, "customProperties")["k"].recipes == ("prod",)
    (description,) = entries(explanation, HOME, "description").values()
    assert (description.kind, description.changed_since) == ("person or tool", ("prod",))
    (removed,) = entries(explanation, "status", "removed").values()
    assert removed.kind == "anyone"
    (path,) = entries(explanation, "browsePathsV2", "path").values()
    assert path.kind == "service"
    fields = explanation_data(explanation)["aspects"]["ownership"]["fields"]
    assert fields["owners"] == {"entries": [], "missing": {"prod": 1}}

    text = "\n".join(line.text for line in explanation_lines(explanation))
    assert "broken: its base is unreadable" in text
    assert "soft-deleted" in text
    assert "after recipe prod: jane" in text
    assert "removed: 1 entry of recipe prod" in text
    assert "mlcat.applied.broken" not in text


def test_many_entries_of_a_field_are_counted_and_hostile_ones_are_harmless() -> None:
    keeper = Keeper({TAGS: [tags("\x1b[31m", *(str(n) for n in range(60)))]})
    lines = [line.text for line in explanation_lines(explained(keeper))]
    assert any("… and 11 more, see --json" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
