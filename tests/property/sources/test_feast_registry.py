"""Whatever stands in a registry, reading it ends with definitions or with an error of ours."""

from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import MlcatError
from mlcat_ingest.sources.definitions.tables import Broken, Definition
from mlcat_ingest.sources.feast.registry import KINDS, RawObject, split_registry
from mlcat_ingest.sources.feast.source import FeastSource
from support.examples import examples
from support.feast import REGISTRY, Objects, config, read, tables
from support.registry_recipe import RegistryRecipe


@cache
def intact() -> tuple[RawObject, ...]:
    return tuple(split_registry(REGISTRY.read_bytes()))


def read_objects(objects: list[RawObject]) -> list[Definition]:
    return list(FeastSource(config(), Objects(objects)).definitions())


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_a_registry_or_an_error_of_ours(content: bytes) -> None:
    with suppress(MlcatError):
        read(content)


@settings(max_examples=examples(50))
@given(st.data())
def test_a_registry_with_a_changed_byte_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(REGISTRY.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    with suppress(MlcatError):
        read(bytes(content))


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    end = next(place for place in range(at, len(content)) if content[place] < 0x80) + 1
    return sum((byte & 0x7F) << (7 * n) for n, byte in enumerate(content[at:end])), end


@cache
def ends_of_fields() -> frozenset[int]:
    """Where a field of the registry's message ends."""
    content = REGISTRY.read_bytes()
    ends, at = set[int](), 0
    while at < len(content):
        tag, at = varint(content, at)
        assert tag & 7 in {0, 2}, "only numbers and what has a length"
        value, at = varint(content, at)
        at += value if tag & 7 == 2 else 0
        ends.add(at)
    return frozenset(ends)


@settings(max_examples=examples(50))
@given(st.data())
def test_a_registry_cut_inside_a_field_is_refused(data: st.DataObject) -> None:
    content = REGISTRY.read_bytes()
    inside = st.integers(1, len(content) - 1).filter(lambda at: at not in ends_of_fields())
    with pytest.raises(MlcatError, match="not a Feast registry, or incomplete"):
        list(split_registry(content[: data.draw(inside)]))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_registry_cut_between_fields_reads_as_a_smaller_one(part: float) -> None:
    content = REGISTRY.read_bytes()
    cut = max(end for end in ends_of_fields() if end <= part * len(content))
    assert set(split_registry(content[:cut])) < set(intact())


def test_a_registry_cut_off_at_any_field_boundary_removes_nothing(tmp_path: Path) -> None:
    content = REGISTRY.read_bytes()
    ends = sorted(ends_of_fields())
    assert len(ends) > 40
    recipe = RegistryRecipe(tmp_path, max_removed_ratio=1.0)
    assert recipe.ingest(content).exit_code == 0
    whole = recipe.live()
    for end in ends[:: len(ends) // examples(len(ends))]:
        recipe.ingest(content[:end])
        assert recipe.live() == whole, end
        recipe.ingest(content)


@settings(max_examples=examples(30))
@given(st.sampled_from(KINDS), st.binary(min_size=1, max_size=60))
def test_a_broken_object_leaves_all_others_as_they_are(kind: str, proto: bytes) -> None:
    added = next(one for one in KINDS if one == kind)
    found = read_objects([RawObject(added, "other", "bad", proto), *intact()])
    before = read_objects(list(intact()))
    for name, table in tables(before).items():
        # One that happens to be a message with that name is still another project's.
        assert table in found, name
    others = [one for one in found if one not in before]
    assert len(others) <= 1
    assert all(one.namespace == "other" for one in others)
    assert all(one.name.endswith("bad") for one in others if isinstance(one, Broken))
