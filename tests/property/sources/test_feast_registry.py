"""Whatever stands in a registry, reading it ends with definitions or with an error of ours."""

from contextlib import suppress
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import MlcatError
from mlcat_ingest.sources.definitions.model import Broken, Definition
from mlcat_ingest.sources.feast.raw import KINDS, RawObject, split_registry
from mlcat_ingest.sources.feast.reader import FeastReader
from support.feast import REGISTRY, Objects, config, read, tables


@cache
def intact() -> tuple[RawObject, ...]:
    return tuple(split_registry(REGISTRY.read_bytes()))


def read_objects(objects: list[RawObject]) -> list[Definition]:
    return list(FeastReader(config(), Objects(objects)).read())


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_a_registry_or_an_error_of_ours(content: bytes) -> None:
    with suppress(MlcatError):
        read(content)


@settings(max_examples=50)
@given(st.data())
def test_a_registry_with_a_changed_byte_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(REGISTRY.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    with suppress(MlcatError):
        read(bytes(content))


@settings(max_examples=50)
@given(st.data())
def test_a_registry_that_was_cut_off_is_refused(data: st.DataObject) -> None:
    content = REGISTRY.read_bytes()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    whole = {one.proto for one in intact()}
    try:
        found = list(split_registry(cut))
    except MlcatError:
        return
    assert {one.proto for one in found} <= whole


@settings(max_examples=30)
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
