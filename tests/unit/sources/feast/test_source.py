"""The source over the registry that Feast made: filters, and what they keep from removal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import RecordError
from mlcat_ingest.links.index import FeatureRef
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.base import Unlisted
from mlcat_ingest.sources.definitions.tables import Broken
from mlcat_ingest.sources.feast.registry import KINDS, RawObject
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import REGISTRY, Objects, broken, config, read, registry, sets, tables
from support.reading import records_of

HEAD = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,"


def source_of(path: Path, content: bytes, **options: Any) -> FeastSource:
    path.write_bytes(content)
    return FeastSource(config(registry=str(path), **options))


def table_names(source: FeastSource) -> list[str]:
    found: list[Entity] = []
    for record in records_of(source):
        if not isinstance(record, Broken):
            found.extend(source.map(record))
    return [one.urn[len(HEAD) : -1] for one in found if one.urn.startswith(HEAD)]


def gone(source: FeastSource, *names: str) -> list[str]:
    unlisted = [Unlisted(f"{HEAD}{name})", {}) for name in names]
    return [one.urn[len(HEAD) : -1] for one in source.missing("part", unlisted)]


CONTENT = registry(
    feature_views=[{"spec": {"name": name, "project": "rides"}} for name in ("a", "b")]
    + [{"spec": {"name": "c", "project": "meals"}}],
    label_views=[{"spec": {"name": "labels", "project": "rides"}}],
)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["rides.a", "rides.b", "meals.c"]),
        ({"label_views": True}, ["rides.a", "rides.b", "meals.c", "rides.labels"]),
        ({"projects": {"allow": ["rides"]}}, ["rides.a", "rides.b"]),
        ({"tables": {"deny": ["a"]}}, ["rides.b", "meals.c"]),
        ({"label_views": True, "tables": {"deny": ["l.*"]}}, ["rides.a", "rides.b", "meals.c"]),
    ],
)
def test_what_a_filter_leaves_out_is_not_read_and_not_gone(
    tmp_path: Path, options: dict[str, Any], wanted: list[str]
) -> None:
    source = source_of(tmp_path / "registry.db", CONTENT, **options)
    assert table_names(source) == wanted
    out = {"rides.a", "rides.b", "meals.c", "rides.labels"} - set(wanted)
    assert gone(source, *sorted(out), "rides.gone") == ["rides.gone"]


def test_the_tables_that_come_are_those_of_the_filters(tmp_path: Path) -> None:
    source = source_of(tmp_path / "registry.db", CONTENT, projects={"allow": ["meals"]})
    assert [table.name for table in source.coming_tables()] == ["meals.c"]
    assert table_names(source) == ["meals.c"]


def test_nothing_is_gone_while_something_cannot_be_read(tmp_path: Path) -> None:
    bad = b"\x32\x0b\x0a\x09\x0a\x03bad\x12\x02\xff\xff"  # a view whose project is no text
    source = source_of(tmp_path / "registry.db", CONTENT + bad)
    records = list(records_of(source))
    failures = [record for record in records if isinstance(record, Broken)]
    assert len(failures) == 1
    with pytest.raises(RecordError, match="cannot be decoded"):
        list(source.map(failures[0]))
    assert gone(source, "rides.gone") == []


def test_what_is_broken_in_a_project_that_is_left_out_is_no_error(tmp_path: Path) -> None:
    bad = b"\x32\x12\x0a\x10\x0a\x03bad\x12\x05meals\x1a\x02\xff\xff"
    source = source_of(tmp_path / "registry.db", CONTENT + bad, projects={"allow": ["rides"]})
    records = list(records_of(source))
    assert not [record for record in records if isinstance(record, Broken)]
    # It may have been there before the filter was.
    assert gone(source, "meals.bad") == []


@pytest.mark.parametrize(
    ("options", "removed"),
    [
        ({"registry": "feast:6570"}, 1),
        ({"registry": "feast:6570", "token": "t"}, 0),
        ({"registry": "feast:6570", "headers": {"X-User": "me"}}, 0),
        ({"registry": "grpcs://feast", "client_cert": "me.pem"}, 0),
        ({"registry": "s3://bucket/registry.db", "token": "t"}, 1),
    ],
)
def test_what_a_server_with_permissions_does_not_list_may_still_be_there(
    options: dict[str, object], removed: int
) -> None:
    source = FeastSource(config(**options))
    source._filtered_urns = set()
    assert len(gone(source, "rides.surge")) == removed
    source.close()


NOT_A_MESSAGE = b"\x0a\x05ab"
VIEW: dict[str, Any] = {"spec": {"name": "v", "project": "p"}}


def read_objects(*objects: RawObject) -> list[Any]:
    return list(FeastSource(config(), Objects(objects)).definitions())


def test_a_service_is_a_set_of_features_by_the_names_of_their_views() -> None:
    found = sets(read(REGISTRY.read_bytes()))
    assert found["driver_ranking"].features == (
        FeatureRef("driver_hourly_stats", "conv_rate"),
        FeatureRef("driver_hourly_stats", "acc_rate"),
        FeatureRef("rate_at_hour", "rate_at_hour"),
    )
    assert found["pairing"].aliases == {"stats_of_driver": "driver_hourly_stats"}
    assert {ref.table for ref in found["pairing"].features} == {
        "driver_hourly_stats",
        "driver_live",
        "customer_profile",
    }


def test_views_of_one_name_in_two_projects_are_two_tables() -> None:
    views = [{"spec": {"name": "v", "project": project}} for project in "pq"]
    found = read(registry(feature_views=views))
    assert [(one.namespace, one.name) for one in found] == [("p", "v"), ("q", "v")]


def test_a_second_view_of_one_name_is_broken_and_the_first_counts() -> None:
    found = read(registry(feature_views=[VIEW], stream_feature_views=[VIEW]))
    assert tables(found)["v"].kind == "Feature View"
    assert broken(found) == [Broken(namespace="p", name="v", reason=broken(found)[0].reason)]
    assert "second view 'v'" in broken(found)[0].reason


def test_an_object_of_any_kind_that_cannot_be_decoded_is_one_broken_definition() -> None:
    view = next(iter(read(registry(feature_views=[VIEW]))))
    read_kinds = [kind for kind in KINDS if not kind.startswith("project")]
    for kind in read_kinds:
        bad = RawObject(kind, "p", "bad", NOT_A_MESSAGE)
        good = RawObject("feature_view", "p", "v", registry(feature_views=[VIEW])[2:])
        found = read_objects(bad, good)
        (one,) = broken(found)
        assert one.name.endswith("bad")
        assert one.namespace == "p"
        assert kind.replace("_", " ") in one.reason
        assert [table for table in found if table != one] == [view]


def test_a_key_of_a_broken_entity_is_still_a_key() -> None:
    view = {"spec": {"name": "v", "project": "p", "entities": ["driver"]}}
    content = registry(feature_views=[view])[2:]
    found = read_objects(
        RawObject("entity", "p", "driver", NOT_A_MESSAGE),
        RawObject("feature_view", "p", "v", content),
    )
    assert [key.name for key in tables(found)["v"].keys] == ["driver"]
    assert [note.kind for note in tables(found)["v"].notes] == ["entity_unknown"]


def test_a_project_that_only_its_place_names_is_that_of_its_views() -> None:
    view = registry(feature_views=[{"spec": {"name": "v"}}])[2:]
    found = read_objects(RawObject("feature_view", "rides", "v", view))
    assert tables(found)["v"].namespace == "rides"


def test_on_demand_views_come_last_whatever_the_order_of_the_objects() -> None:
    kinds = [one.kind for one in tables(read(REGISTRY.read_bytes())).values()]
    assert kinds == [
        *["Feature View"] * 18,
        "Stream Feature View",
        *["On Demand Feature View"] * 2,
        "Label View",
    ]


def test_a_registry_is_fetched_once_until_the_source_is_closed() -> None:
    class Counted(Objects):
        fetched = 0

        def objects(self) -> Iterator[RawObject]:
            self.fetched += 1
            return super().objects()

    transport = Counted([RawObject("feature_view", "p", "v", registry(feature_views=[VIEW])[2:])])
    source = FeastSource(config(), transport)
    assert list(source.definitions()) == list(source.definitions())
    assert transport.fetched == 1
    source.close()
    assert [one.name for one in source.definitions()] == ["v"]
    assert transport.fetched == 2


@pytest.mark.parametrize(
    ("registry", "address"),
    [
        ("postgresql://reader:pa55@db:5432/feast?password=x", "postgresql://db:5432/feast"),
        ("feast.example:6570", "feast.example:6570"),
    ],
)
def test_the_address_of_a_registry_has_no_credentials(registry: str, address: str) -> None:
    assert FeastSource(config(registry=registry)).address == address
