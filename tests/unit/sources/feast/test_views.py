"""Views made of messages: what each field of theirs becomes."""

from typing import Any

import pytest

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.definitions.tables import DatasetPlace, FeatureTable
from mlcat_ingest.sources.feast.registry import MESSAGES
from support.feast import read, registry, table_of, tables

S3 = {"name": "s3", "type": 1, "file_options": {"uri": "s3://b/k"}}
GCS = {"name": "gcs", "type": 1, "file_options": {"uri": "gs://b/k"}}


def one_of(kind: str, spec: dict[str, Any], **lists: Any) -> FeatureTable:
    content = registry(**{kind: [{"spec": {"name": "v", "project": "p", **spec}}]}, **lists)
    return tables(read(content))["v"]


def taken(**source: Any) -> Any:
    # Older versions of protobuf fill a map with messages only, not with what they hold.
    return MESSAGES["OnDemandSource"](**source)


def test_what_feast_writes_of_a_view_beside_its_columns() -> None:
    view = {
        "spec": {
            "name": "v",
            "project": "p",
            "online": True,
            "offline": True,
            "ttl": {"seconds": 90, "nanos": 500_000_000},
            "mode": "python",
            "version": "v2",
            "org": "ads",
            "disabled": True,
            "batch_source": S3,
        },
        "meta": {
            "created_timestamp": {"seconds": 1_700_000_000},
            "last_updated_timestamp": {"seconds": 1_700_000_060},
            "current_version_number": 2,
            "state": 4,
            "materialization_intervals": [
                {"end_time": {"seconds": 1_700_000_120, "nanos": 500_000_000}},
                {"end_time": {"seconds": 1_700_000_120}},
                {"end_time": {"seconds": 1_700_000_030}},
            ],
        },
    }
    found = tables(read(registry(feature_views=[view])))["v"]
    assert found.properties == {
        "feast.online": "true",
        "feast.offline": "true",
        "feast.ttl_s": "90.5",
        "feast.mode": "python",
        "feast.version": "v2",
        "feast.version_number": "2",
        "feast.org": "ads",
        "feast.disabled": "true",
        "feast.state": "AVAILABLE_ONLINE",
        "feast.created_at": "2023-11-14T22:13:20Z",
        "feast.last_updated_at": "2023-11-14T22:14:20Z",
        "feast.materialized_until": "2023-11-14T22:15:20.500Z",
        "feast.sources": "s3",
    }


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (2_592_000, 0, "2592000"),
        (1_234_567, 0, "1234567"),
        (10**12 + 1, 1, "1000000000001.000000001"),
        (315_576_000_000, 999_999_999, "315576000000.999999999"),
        (0, 1, "0.000000001"),
        (-1, -500_000_000, "-1.5"),
    ],
)
def test_a_duration_has_all_of_its_digits(seconds: int, nanos: int, text: str) -> None:
    duration = {"seconds": seconds, "nanos": nanos}
    assert table_of({"ttl": duration}).properties["feast.ttl_s"] == text
    step = {"function": "sum", "column": "n", "time_window": duration}
    found = one_of("stream_feature_views", {"aggregations": [step]})
    assert found.properties["feast.aggregations"] == f"sum(n) over {text} s"


def test_an_aggregation_says_its_slide_and_the_name_of_its_result() -> None:
    step = {"function": "sum", "column": "n", "time_window": {"seconds": 60}}
    slide = {"slide_interval": {"seconds": 5}, "name": "n5"}
    steps = [{**step, "slide_interval": {"seconds": 60}}, {**step, **slide}]
    found = one_of("stream_feature_views", {"aggregations": steps}).properties
    assert found["feast.aggregations"] == "sum(n) over 60 s, sum(n) over 60 s every 5 s as n5"


@pytest.mark.parametrize(
    ("version", "number", "expected"),
    [("latest", 0, "0"), ("latest", 12, "12"), ("v0", 0, "0"), ("", 3, "3"), ("", 0, None)],
)
@pytest.mark.parametrize(
    "kind", ["feature_views", "stream_feature_views", "on_demand_feature_views"]
)
def test_features_have_the_version_of_their_view_and_the_first_one_is_0(
    kind: str, version: str, number: int, expected: str | None
) -> None:
    spec = {"name": "v", "project": "p", "version": version, "features": [{"name": "rate"}]}
    view = {"spec": spec, "meta": {"current_version_number": number}}
    found = tables(read(registry(**{kind: [view]})))["v"]
    assert found.properties.get("feast.version_number") == expected
    assert found.features[0].version == (None if expected is None else f"v{expected}")


def test_what_a_view_does_not_say_is_no_property() -> None:
    assert table_of({}).properties == {"feast.online": "false"}


def test_numbers_and_times_that_are_not_known_do_no_harm() -> None:
    meta = {"state": -3, "created_timestamp": {"seconds": 2**62}}
    view = {"spec": {"name": "v", "project": "p"}, "meta": meta}
    found = tables(read(registry(feature_views=[view])))["v"]
    assert found.properties == {"feast.online": "false", "feast.state": "-3"}
    label = one_of("label_views", {"conflict_policy": 77})
    assert label.properties["feast.conflict_policy"] == "77"


def test_a_view_of_views_comes_from_what_they_come_from() -> None:
    below = [
        {"name": "a", "batch_source": S3},
        {"name": "b", "source_views": [{"name": "c", "batch_source": GCS}]},
    ]
    found = table_of({"source_views": below})
    assert found.sources == (DatasetPlace("s3", "b/k"), DatasetPlace("gcs", "b/k"))


def test_a_key_is_called_like_its_entity_and_typed_like_its_column() -> None:
    entities = [{"spec": {"name": "driver", "project": "p", "join_key": "driver_id"}}]
    spec = {"entities": ["driver"], "entity_columns": [{"name": "driver_id", "value_type": 4}]}
    (key,) = table_of(spec, entities=entities).keys
    assert (key.name, key.column, key.type) == ("driver", "driver_id", "ORDINAL")
    assert key.properties == {"feast.join_key": "driver_id", "feast.value_type": "INT64"}


def test_the_type_of_an_entity_counts_before_that_of_the_column() -> None:
    spec = {"name": "driver", "project": "p", "join_key": "driver_id", "value_type": 2}
    view = {"entities": ["driver"], "entity_columns": [{"name": "driver_id", "value_type": 4}]}
    assert table_of(view, entities=[{"spec": spec}]).keys[0].type == "TEXT"


def test_an_entity_of_another_project_is_another_one() -> None:
    entities = [{"spec": {"name": "driver", "project": "q", "join_key": "x", "value_type": 2}}]
    found = table_of({"entities": ["driver"]}, entities=entities)
    assert [(key.name, key.type) for key in found.keys] == [("driver", "UNKNOWN")]
    assert found.notes == (Note("entity_unknown", "driver"),)


def test_a_field_that_is_a_join_key_is_no_feature() -> None:
    entities = [{"spec": {"name": "driver", "project": "p", "join_key": "driver_id"}}]
    fields = [{"name": name, "value_type": 2} for name in ("driver_id", "zone", "kept")]
    view = {"entities": ["driver"], "features": fields, "entity_columns": [{"name": "zone"}]}
    assert [one.name for one in table_of(view, entities=entities).features] == ["kept"]


def test_a_tag_can_say_the_type_and_is_no_tag_then() -> None:
    fields = [
        {"name": "a", "value_type": 4, "tags": {"mlcat.type": " count", "k": "v"}},
        {"name": "b", "value_type": 4, "tags": {"mlcat.type": "NUMBER"}},
    ]
    found = table_of({"features": fields})
    assert [(one.type, one.tags) for one in found.features] == [
        ("COUNT", {"k": "v"}),
        ("ORDINAL", {}),
    ]
    assert found.notes == (Note("feature_type_unknown", "b: mlcat.type is 'NUMBER'"),)


def test_a_type_that_nobody_knows_is_noted_once_for_all_views() -> None:
    fields = [{"name": "a", "value_type": 99}, {"name": "b", "value_type": 99}]
    views = [{"spec": {"name": name, "project": "p", "features": fields}} for name in "vw"]
    found = tables(read(registry(feature_views=views)))
    assert {one.type for table in found.values() for one in table.features} == {"UNKNOWN"}
    assert found["v"].features[0].properties == {"feast.value_type": "99"}
    assert [table.notes for table in found.values()] == [
        (Note("feature_type_unknown", "value type 99"),),
        (),
    ]


def test_tags_of_feasts_own_are_no_tags() -> None:
    tags = {"feast:track_metrics": "true", "feast.connection-ref.name": "x", "team": "a"}
    field = {"name": "a", "value_type": 34, "tags": {"feast:struct_schema": "{}", "t": "u"}}
    nested = {"name": "b", "value_type": 42, "tags": {"feast:nested_inner_type": "INT64"}}
    found = table_of({"tags": tags, "features": [field, nested]})
    assert found.tags == {"team": "a"}
    assert found.features[0].tags == {"t": "u"}
    assert found.features[0].properties == {
        "feast.value_type": "STRUCT",
        "feast.struct_schema": "{}",
    }
    assert found.features[1].tags == {}
    assert found.features[1].properties["feast.nested_type"] == "INT64"


def test_a_description_counts_before_the_tag_of_that_name_which_then_stays() -> None:
    field = {"name": "a", "value_type": 2, "description": "said", "tags": {"description": "tag"}}
    (feature,) = table_of({"features": [field]}).features
    assert (feature.description, feature.tags) == ("said", {"description": "tag"})


def test_a_label_view_says_who_labels_and_what() -> None:
    spec = {
        "labeler_field": "who",
        "conflict_policy": 2,
        "retain_history": True,
        "reference_feature_view": "base",
        "source": S3,
    }
    found = one_of("label_views", spec)
    assert (found.kind, found.sources) == ("Label View", (DatasetPlace("s3", "b/k"),))
    assert found.properties == {
        "feast.online": "false",
        "feast.labeler_field": "who",
        "feast.conflict_policy": "MAJORITY_VOTE",
        "feast.retain_history": "true",
        "feast.reference_feature_view": "base",
        "feast.sources": "s3",
    }


def test_an_on_demand_view_takes_from_projections_requests_and_old_embedded_views() -> None:
    request = {"type": 7, "request_data_options": {"schema": [{"name": "hour"}]}}
    columns = [{"name": "x"}]
    projection = {"feature_view_name": "gone", "batch_source": S3, "feature_columns": columns}
    embedded = {"spec": {"name": "old", "features": [{"name": "y"}], "batch_source": GCS}}
    sources = {
        "a": taken(feature_view_projection=projection),
        "b": taken(request_data_source=request),
        "c": taken(feature_view=embedded),
    }
    found = one_of("on_demand_feature_views", {"sources": sources, "singleton": True})
    assert found.sources == (DatasetPlace("s3", "b/k"), DatasetPlace("gcs", "b/k"))
    assert found.properties == {
        "feast.upstream_features": "gone:x, old:y",
        "feast.request_fields": "hour",
        "feast.singleton": "true",
        "feast.sources": "s3, gcs",
    }


def test_a_projection_under_another_name_leads_to_the_view_itself() -> None:
    projection = {
        "feature_view_name": "base",
        "feature_view_name_alias": "other",
        "feature_columns": [{"name": "x"}],
    }
    base = {"spec": {"name": "base", "project": "p", "batch_source": S3}}
    found = one_of(
        "on_demand_feature_views",
        {"sources": {"a": taken(feature_view_projection=projection)}},
        feature_views=[base],
    )
    assert found.sources == (DatasetPlace("s3", "b/k"),)
    assert found.properties["feast.upstream_features"] == "base:x"


def on_demand(name: str, below: str) -> dict[str, Any]:
    source = taken(feature_view_projection={"feature_view_name": below})
    return {"spec": {"name": name, "project": "p", "sources": {"x": source}}}


@pytest.mark.parametrize("names", ["abc", "cba", "bca"])
def test_on_demand_views_of_one_another_have_all_datasets_in_any_order(names: str) -> None:
    below = {"a": "b", "b": "c", "c": "base"}
    views = [on_demand(name, below[name]) for name in names]
    base = {"spec": {"name": "base", "project": "p", "batch_source": S3}}
    found = tables(read(registry(on_demand_feature_views=views, feature_views=[base])))
    assert [found[name].sources for name in names] == [(DatasetPlace("s3", "b/k"),)] * 3


def test_on_demand_views_that_take_from_each_other_are_tables_all_the_same() -> None:
    views = [on_demand("a", "b"), on_demand("b", "a")]
    assert list(tables(read(registry(on_demand_feature_views=views)))) == ["a", "b"]
