"""Tags of verdicts, in the merge: apart from what the source, other recipes and people say."""

from typing import Any

import pytest

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity, merge_entity
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules
from support.merging import HOME, RULES, Shelf

TAGS = "globalTags"
OTHER = MergeRules(Writer("other"))


def tags(*names: str) -> dict[str, Aspect]:
    return {TAGS: {"tags": [{"tag": name} for name in names]}, HOME: {"name": "m"}}


def shown(shelf: Shelf) -> list[str]:
    return [entry["tag"] for entry in shelf.field("tags", (), TAGS)]


def judge(shelf: Shelf, *names: str, rules: MergeRules = RULES) -> MergedEntity:
    entity = Entity(shelf.urn, {TAGS: {}}, verdicts=names)
    return shelf.write(merge_entity(entity, shelf.stored(), rules))


def ingested(*names: str) -> Shelf:
    shelf = Shelf()
    shelf.ingest(tags(*names))
    return shelf


def test_a_verdict_changes_its_own_tags_and_the_source_changes_its_own() -> None:
    shelf = ingested("a", "b")
    judge(shelf, "f", "g")
    assert shown(shelf) == ["a", "b", "f", "g"]
    assert shelf.custom() == {"mlcat.verdicts.prod": "f,g"}
    for merged in (judge(shelf, "f", "g"), shelf.ingest(tags("a", "b"))):
        assert merged.proposals == ()
    shelf.ingest(tags("b", "c"))
    assert shown(shelf) == ["b", "f", "g", "c"]
    judge(shelf, "g")
    assert shown(shelf) == ["b", "g", "c"]
    assert shelf.custom() == {"mlcat.verdicts.prod": "g"}
    judge(shelf)
    assert (shown(shelf), shelf.custom()) == (["b", "c"], {})


@pytest.mark.parametrize("left_out", [{}, {TAGS: {"context": None}}])
def test_a_source_that_does_not_read_tags_leaves_them(left_out: Any) -> None:
    shelf = ingested("a")
    judge(shelf, "f")
    shelf.ingest({HOME: {"name": "n"}, **left_out})
    assert (shelf.field("name"), shown(shelf)) == ("n", ["a", "f"])
    judge(shelf)
    assert shown(shelf) == ["a"]


@pytest.mark.parametrize("before", [{"tags": []}, {}, None])
def test_what_somebody_took_away_is_given_again(before: Aspect | None) -> None:
    shelf = ingested("a")
    judge(shelf, "f")
    del shelf.aspects[TAGS]
    if before is not None:
        shelf.put(TAGS, before)
    judge(shelf, "f")
    assert shown(shelf) == ["f"]
    shelf.ingest(tags("a"))
    assert shown(shelf) == ["f", "a"]


def test_a_tag_that_the_source_says_too_is_there_once() -> None:
    with_context = {**tags(), TAGS: {"tags": [{"tag": "a", "context": "c"}]}}
    shelf = Shelf()
    shelf.ingest(with_context)
    aspects, base = dict(shelf.aspects), shelf.base()
    judge(shelf, "a")
    assert (shelf.aspects[TAGS], shelf.base()) == (aspects[TAGS], base)
    assert shelf.custom() == {"mlcat.verdicts.prod": "a"}
    del shelf.aspects[TAGS]
    shelf.ingest(with_context)
    assert shelf.aspects[TAGS] == aspects[TAGS]
    assert shelf.ingest(with_context).proposals == ()


def test_a_tag_of_another_recipe_or_of_people_is_not_ours_to_take() -> None:
    shelf = ingested("a")
    shelf.ingest(tags("o"), OTHER)
    shelf.edit(TAGS, tags=[*shelf.field("tags", aspect=TAGS), {"tag": "p"}, {"tag": "f"}])
    judge(shelf, "f", rules=OTHER)
    judge(shelf, "g")
    assert shelf.custom() == {"mlcat.verdicts.other": "f", "mlcat.verdicts.prod": "g"}
    judge(shelf)
    shelf.ingest(tags(), OTHER)
    judge(shelf, rules=OTHER)
    assert shown(shelf) == ["a", "p", "f"]


def test_another_aspect_has_no_tags_of_verdicts() -> None:
    shelf = ingested()
    judge(shelf, "f")
    shelf.ingest({**tags(), "theirs": {"tags": ["x"]}})
    assert shelf.aspects["theirs"] == {"tags": ["x"]}


def test_verdicts_create_nothing_and_need_a_writer() -> None:
    assert judge(Shelf(), "f").change == "left_out"
    shelf = ingested()
    shelf.edit(HOME, customProperties={**shelf.field("customProperties"), "mlcat.verdicts.": "f"})
    shelf.ingest(tags("a"), UNION)
    assert shown(shelf) == ["a"]


def test_what_is_no_list_of_verdicts_is_none() -> None:
    shelf = ingested()
    shelf.edit(HOME, customProperties={**shelf.field("customProperties"), "mlcat.verdicts.prod": 1})
    shelf.ingest(tags("a"))
    assert shown(shelf) == ["a"]
