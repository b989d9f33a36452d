"""Removals that wait: each once, whole, until they are released."""

from collections.abc import Iterator
from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import Change, MergedEntity
from mlcat_ingest.pipeline.removal.soft_delete import DeferredRemovals
from support.fakes import group_urn, model_urn

GONE = {"status": {"removed": True}}


def removed(name: str, change: Change = "removed", **more: object) -> MergedEntity:
    entity = Entity(model_urn(name), {**GONE, **more}, adds_only=frozenset({"b", "a"}))  # type: ignore[dict-item]
    return MergedEntity(entity, {}, change)


def urns(*names: str) -> list[str]:
    return [model_urn(one) for one in names]


@pytest.fixture
def waiting() -> Iterator[DeferredRemovals]:
    removals = DeferredRemovals()
    yield removals
    removals.close()


def test_a_removal_waits_and_all_else_passes(waiting: DeferredRemovals) -> None:
    updated = MergedEntity(Entity(model_urn("x"), {}), {}, "updated")
    taken_back = removed("b", "updated")
    in_trash = taken_back._replace(stored={"status": StoredAspect({"removed": True})})
    passing = [updated, in_trash, removed("c", "unchanged"), removed("d", "created")]
    assert waiting.partition([removed("a"), *passing, taken_back]) == (passing, urns("a", "b"))
    assert list(waiting.urns) == urns("a", "b")


@pytest.mark.parametrize(
    ("urn", "aspects", "outcome", "is_new"),
    [
        (group_urn("a"), {}, "created", True),
        (group_urn("a"), {}, "updated", False),
        (group_urn("a"), GONE, "created", False),
        (model_urn("a"), {}, "created", False),
        (model_urn("a"), GONE, "created", False),
    ],
)
def test_only_a_group_that_is_there_for_the_first_time_is_new(
    waiting: DeferredRemovals,
    urn: str,
    aspects: Any,
    outcome: Change,
    is_new: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    waiting.partition([MergedEntity(Entity(urn, aspects), {}, outcome)])
    assert waiting.new_groups == is_new


def test_a_removal_is_released_once_and_whole(waiting: DeferredRemovals) -> None:
    # No JSON: it waits in memory, and the catalog says what is wrong with it.
    odd = {"name": "\ud800"}
    for _ in range(2):
        waiting.partition([removed("a"), removed("odd", mlModelKey=odd), removed("b")])
    assert list(waiting.release()) == [
        removed("a").entity,
        removed("b").entity,
        removed("odd", mlModelKey=odd).entity,
    ]


def test_after_the_release_nothing_waits(waiting: DeferredRemovals) -> None:
    waiting.partition([removed("a")])
    list(waiting.release())
    late = removed("b")
    assert waiting.partition([late]) == ([late], [])
    assert list(waiting.urns) == urns("a")


def test_after_a_restart_only_new_removals_wait(waiting: DeferredRemovals) -> None:
    waiting.partition([removed("a"), removed("b"), removed("odd", mlModelKey={"name": "\ud800"})])
    list(waiting.release())
    waiting.restart()
    assert waiting.urns == {}
    assert waiting.partition([removed("c")]) == ([], urns("c"))
    assert list(waiting.urns) == urns("c")
    assert [one.urn for one in waiting.release()] == urns("c")


def test_it_may_be_closed_twice(waiting: DeferredRemovals) -> None:
    waiting.partition([removed("a")])
    waiting.close()
