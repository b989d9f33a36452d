from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.limits import NAMES
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.rest.operations import _fetch_aspects
from mlcat_ingest.metadata_tests.definition import FIELDS_DESCRIBED
from mlcat_ingest.metadata_tests.evaluate import _PropertyReader
from support.catalog_store import feature, group, model, open_store, put

DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "catalog.db")) as opened:
        yield opened


def values(store: Store, urn: str, path: str) -> list[Any]:
    """Read one path, loading as often as it takes."""
    reader = _PropertyReader(store.get_many, [urn], [path])
    while (found := reader.values(urn, path)) is None:
        assert reader.load()
    assert not reader.load()
    return found


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("urn", [model("m")]),
        ("entityType", ["mlModel"]),
        ("mlModelProperties.description", ["good"]),
        ("mlModelProperties.absent", []),
        ("ownership.owners.owner", []),
        ("mlModelProperties.description.more", []),
        ("mlModelProperties.trainingMetrics.accuracy", ["0.91"]),
        ("mlModelProperties.trainingMetrics.val.loss", ["0.3"]),
        ("mlModelProperties.trainingMetrics.accuracy.createdAt", [7]),
        ("mlModelProperties.trainingMetrics.name", ["accuracy", "val.loss"]),
        ("mlModelProperties.trainingMetrics.value", ["0.91", "0.3"]),
        ("mlModelProperties.trainingMetrics.nothing", []),
        ("mlModelProperties.trainingMetrics.length", [2]),
        ("mlModelProperties.hyperParams.bare", [{"name": "bare"}]),
        ("mlModelProperties.hyperParameters.lr", [0.5]),
        ("mlModelProperties.customProperties.mlflow.user", ["ada"]),
        ("mlModelProperties.customProperties.mlflow", ["short"]),
        ("mlModelProperties.version", [{"versionTag": "3"}]),
        ("mlModelProperties.version.versionTag", ["3"]),
        ("globalTags.tags.tag", ["urn:li:tag:a", "urn:li:tag:b"]),
        ("mlModelProperties.externalUrl", []),
        (FIELDS_DESCRIBED, [False]),
    ],
)
def test_paths(store: Store, path: str, expected: list[Any]) -> None:
    put(
        store,
        model("m"),
        mlModelProperties={
            "description": "good",
            "version": {"versionTag": "3"},
            "trainingMetrics": [
                {"name": "accuracy", "value": "0.91", "createdAt": 7},
                {"name": "val.loss", "value": "0.3"},
            ],
            "hyperParams": [{"name": "bare"}],
            "hyperParameters": {"lr": {"double": 0.5}},
            "customProperties": {"mlflow": "short", "mlflow.user": "ada"},
        },
        globalTags={"tags": [{"tag": "urn:li:tag:a"}, {"tag": "urn:li:tag:b"}]},
    )
    assert values(store, model("m"), path) == expected


def test_a_path_goes_on_through_urns(store: Store) -> None:
    source = put(store, DATASET, datasetProperties={"description": "raw"})
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [source]})
    put(store, model("m"), mlModelProperties={"mlFeatures": [feature("t", "f"), feature("t", "g")]})

    through = "mlModelProperties.mlFeatures.mlFeatureProperties.sources"

    assert values(store, model("m"), "mlModelProperties.mlFeatures.entityType") == [
        "mlFeature",
        "mlFeature",
    ]
    assert values(store, model("m"), through) == [DATASET]
    assert values(store, model("m"), f"{through}.datasetProperties.description") == ["raw"]


def test_a_circle_of_urns_ends(store: Store) -> None:
    put(
        store,
        "urn:li:tag:a",
        ownership={"owners": [{"owner": "urn:li:corpuser:x", "type": "NONE"}]},
    )
    round_trip = ".ownership.owners.owner.urn"
    path = "mlModelProperties.groups" + ".mlModelGroupProperties.trainingJobs" * 9
    put(store, group("g"), mlModelGroupProperties={"trainingJobs": []})
    put(store, model("m"), mlModelProperties={"groups": [group("g")]})
    assert values(store, model("m"), path) == []
    assert values(store, "urn:li:tag:a", round_trip[1:]) == ["urn:li:corpuser:x"]


def test_hops_are_limited(store: Store) -> None:
    first, second = "urn:li:container:1", "urn:li:container:2"
    put(store, first, container={"container": second})
    put(store, second, container={"container": first})
    step = "container.container"
    assert values(store, first, ".".join([step] * 4)) == [first]
    assert values(store, first, ".".join([step] * 5)) == []


@pytest.mark.parametrize("also", [[], ["__lastSynchronized"], [f"a{n}" for n in range(NAMES + 1)]])
def test_a_path_reads_the_same_whatever_else_is_read(store: Store, also: list[str]) -> None:
    first, second = "urn:li:container:1", "urn:li:container:2"
    put(store, first, container={"container": second})
    put(store, second, containerProperties={"name": "second"}, status={"removed": False})
    expected = {
        "container.container": [second],
        "container.container.status.removed": [False],
        "container.container.containerProperties.name": ["second"],
        "status.removed": [],
        "schemaFields.fieldPath": [],
        FIELDS_DESCRIBED: [False],
        "urn": [first],
    }

    for paths in (expected, ["container.container"], ["urn"]):
        reader = _PropertyReader(partial(_fetch_aspects, store), [first, second], [*paths, *also])
        found: dict[str, list[Any] | None] = {}
        for _ in range(3):
            found = {path: reader.values(first, path) for path in expected}
            reader.load()
        assert found == expected


def test_what_is_no_urn_has_no_type(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"tags": ["urn:li:"]})
    assert values(store, model("m"), "mlModelProperties.tags.entityType") == [""]


def test_structured_properties_are_named_by_urn(store: Store) -> None:
    name = "urn:li:structuredProperty:io.example.tier"
    assigned = [
        {"propertyUrn": name, "values": [{"string": "gold"}, {"double": 2.0}]},
        {"propertyUrn": "urn:li:structuredProperty:other", "values": [{"string": "x"}]},
    ]
    put(store, model("m"), structuredProperties={"properties": assigned})
    assert values(store, model("m"), f"structuredProperties.{name}") == ["gold", 2.0]
    assert values(store, model("m"), "structuredProperties.properties.propertyUrn") == [
        name,
        "urn:li:structuredProperty:other",
    ]


def test_times_of_an_entity(store: Store) -> None:
    observed = {"lastObserved": 12345}
    store.write([Write(model("m"), "mlModelProperties", {}, system_metadata=observed)])
    stored = store.get_many([model("m")])[model("m")]["mlModelProperties"]
    put(store, model("n"), mlModelProperties={})

    assert values(store, model("m"), "__lastObserved") == [12345]
    assert values(store, model("n"), "__lastObserved") == []
    assert values(store, model("m"), "__firstSynchronized") == [stored.created_ms]
    assert values(store, model("m"), "__lastSynchronized") == [stored.modified_ms]
    assert values(store, model("never"), "__lastSynchronized") == []


@pytest.mark.parametrize(
    ("described", "edited", "expected"),
    [
        (["a", "b"], [], True),
        (["a"], ["b"], True),
        (["a"], [], False),
    ],
)
def test_schema_fields(
    store: Store,
    described: list[str],
    edited: list[str],
    expected: bool,  # noqa: FBT001
) -> None:
    number: dict[str, Any] = {"type": {"com.linkedin.schema.NumberType": {}}}
    fields: list[dict[str, Any]] = [
        {"fieldPath": name, "nativeDataType": "int", "type": number}
        | ({"description": "d"} if name in described else {})
        for name in ("a", "b")
    ]
    schema = {
        "schemaName": "s",
        "platform": "urn:li:dataPlatform:s3",
        "version": 0,
        "hash": "",
        "platformSchema": {"com.linkedin.schema.OtherSchema": {"rawSchema": ""}},
        "fields": fields,
    }
    info = [{"fieldPath": name, "description": "d"} for name in edited]
    put(store, DATASET, schemaMetadata=schema)
    put(store, DATASET, editableSchemaMetadata={"editableSchemaFieldInfo": info})
    assert values(store, DATASET, FIELDS_DESCRIBED) == [expected]
    assert values(store, DATASET, "schemaFields.length") == [2]
    assert values(store, DATASET, "schemaFields.fieldPath") == ["a", "b"]
