import pytest

from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.feast.registry import (
    KINDS,
    MESSAGES,
    RawObject,
    raw_object,
    split_registry,
)
from support.feast import registry


def test_a_registry_is_cut_into_objects_that_know_who_they_are() -> None:
    named = {"spec": {"name": "n", "project": "p"}}
    content = registry(
        projects=[{"spec": {"name": "p"}}],
        project_metadata=[{"project": "p", "project_uuid": "n"}],
        entities=[named],
        data_sources=[{"name": "n", "project": "p"}],
        feature_views=[named],
        stream_feature_views=[named],
        on_demand_feature_views=[named],
        label_views=[named],
        feature_services=[named],
        registry_schema_version="1",
    )
    found = list(split_registry(content))
    assert {one.kind for one in found} == set(KINDS)
    assert {(one.project, one.name) for one in found} == {("p", "n"), ("p", "p")}
    views = [one for one in found if one.kind == "feature_view"]
    assert MESSAGES["FeatureView"].FromString(views[0].proto).spec.name == "n"


def test_a_registry_of_a_later_feast_is_read_past_what_is_not_known() -> None:
    later = b"\xa8\x01\x07" + b"\xb2\x01\x02hi"  # fields 21 and 22
    content = registry(entities=[{"spec": {"name": "n"}}]) + later
    assert [one.name for one in split_registry(content)] == ["n"]


def test_an_object_that_cannot_be_decoded_is_cut_out_like_any_other() -> None:
    broken = b"\x0a\x03\xff\xff\xff"
    content = b"\x0a\x05" + broken + registry(entities=[{"spec": {"name": "n"}}])
    assert next(split_registry(content)) == RawObject("entity", "", "", broken)
    assert [one.name for one in split_registry(content)] == ["", "n"]


def test_the_project_of_the_place_counts_where_the_object_names_none() -> None:
    proto = MESSAGES["Entity"](spec={"name": "n"}).SerializeToString()
    assert raw_object("entity", proto, "p") == RawObject("entity", "p", "n", proto)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html><html>",
        b"project: rides\n",
        b'{"projects": []}',
        b"SQLite format 3\x00",
        b"\x1f\x8b\x08\x00",
        b"\xa8\x01\x07",
        b"\x0a\x02hi\x00\x00",
        b"\xff" * 20,
    ],
)
def test_what_is_no_registry_is_reported_to_be_none(content: bytes) -> None:
    with pytest.raises(ProtocolMismatchError, match="not a Feast registry") as caught:
        list(split_registry(content))
    assert ("sqlite:///" in str(caught.value.hint)) is content.startswith(b"SQLite")


def test_a_registry_that_breaks_off_is_not_read_in_part() -> None:
    content = registry(entities=[{"spec": {"name": "n"}}, {"spec": {"name": "m"}}])
    objects = split_registry(content[:-1])
    with pytest.raises(ProtocolMismatchError, match="incomplete"):
        next(objects)
