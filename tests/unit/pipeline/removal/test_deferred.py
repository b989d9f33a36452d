"""Removals that wait: each once, whole, until they are released."""

from collections.abc import Iterator

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.removal.soft_delete import DeferredRemovals
from support.fakes import model_urn

GONE = {"status": {"removed": True}}


def removed(name: str, **more: object) -> MergedEntity:
    entity = Entity(model_urn(name), {**GONE, **more}, adds_only=frozenset({"b", "a"}))  # type: ignore[dict-item]
    return MergedEntity(entity, {}, "removed")


def urns(*names: str) -> list[str]:
    return [model_urn(one) for one in names]


@pytest.fixture
def waiting() -> Iterator[DeferredRemovals]:
    removals = DeferredRemovals()
    yield removals
    removals.close()


def test_a_removal_waits_and_all_else_passes(waiting: DeferredRemovals) -> None:
    updated = MergedEntity(Entity(model_urn("x"), {}), {}, "updated")
    assert waiting.partition([removed("a"), updated, removed("b")]) == ([updated], urns("a", "b"))
    assert list(waiting.urns) == urns("a", "b")


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
    assert waiting.urns == ()
    assert waiting.partition([removed("c")]) == ([], urns("c"))
    assert list(waiting.urns) == urns("c")
    assert [one.urn for one in waiting.release()] == urns("c")


def test_it_may_be_closed_twice(waiting: DeferredRemovals) -> None:
    waiting.partition([removed("a")])
    waiting.close()
