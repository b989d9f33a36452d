"""A registry as a whole: what refers to what, and what is broken."""

from collections.abc import Iterator
from typing import Any

from mlcat_ingest.sources.definitions.model import Broken, FeatureRef
from mlcat_ingest.sources.feast.raw import KINDS, Kind, RawObject
from mlcat_ingest.sources.feast.reader import FeastReader
from support.feast import REGISTRY, Objects, broken, config, read, registry, sets, tables

NOT_A_MESSAGE = b"\x0a\x05ab"
VIEW: dict[str, Any] = {"spec": {"name": "v", "project": "p"}}


def read_objects(*objects: RawObject) -> list[Any]:
    return list(FeastReader(config(), Objects(objects)).read())


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
    read_kinds: list[Kind] = [kind for kind in KINDS if kind != "project"]
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


def test_a_registry_is_fetched_once_until_the_reader_is_closed() -> None:
    class Counted(Objects):
        fetched = 0

        def objects(self) -> Iterator[RawObject]:
            self.fetched += 1
            return super().objects()

    transport = Counted([RawObject("feature_view", "p", "v", registry(feature_views=[VIEW])[2:])])
    reader = FeastReader(config(), transport)
    assert list(reader.read()) == list(reader.read())
    assert transport.fetched == 1
    reader.close()
    assert [one.name for one in reader.read()] == ["v"]
    assert transport.fetched == 2
