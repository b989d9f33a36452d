"""Our declarations against the schema classes of the DataHub SDK: drift shows here."""

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from datahub.metadata.schema_classes import ASPECT_NAME_MAP
from datahub.metadata.urns import Urn

from mlcat_ingest.metadata.aspects.declaration import (
    Bits,
    Default,
    Edge,
    Field,
    OneOf,
    UrnOf,
    bare,
    fields,
)
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.registry import ASPECTS, key_aspect
from mlcat_ingest.metadata.urn import KINDS
from support.sdk_schema import assert_valid_for_sdk
from support.sdk_values import urn_of

TYPED = sorted(name for name, spec in ASPECTS.items() if spec.type is not None)
# Records whose name here says more than the model's own, or that stand for several.
RENAMED = {
    "EdgeRecord": {"Edge"},
    "LinkSettings": {"InstitutionalMemoryMetadataSettings"},
    "EditableDescription": {
        ASPECTS[name].record.rpartition(".")[2] for name in TYPED if name.startswith("editable")
    },
}


@pytest.mark.parametrize("name", TYPED)
def test_a_record_has_the_fields_of_the_model(name: str) -> None:
    assert not list(record_differences(ASPECT_NAME_MAP[name].RECORD_SCHEMA, ASPECTS[name].type))


def record_differences(schema: Any, record: Any) -> Iterator[str]:
    name = record.__name__.removeprefix("_")
    names = RENAMED.get(name, {name})
    if schema.name not in names:
        yield f"{record.__name__} stands for {schema.name}"
    ours = fields(record)
    # The SDK's classes name the member of a union that is there; on the wire it is not named.
    theirs = {one.name: one for one in schema.fields if one.name != "fieldDiscriminator"}
    if set(ours) != set(theirs):
        yield f"{schema.name}: {set(ours) ^ set(theirs)} stand on one side only"
    for name in ours.keys() & theirs.keys():
        place = f"{schema.name}.{name}"
        yield from presence_differences(place, theirs[name], ours[name])
        yield from urn_differences(place, theirs[name].other_props, ours[name])
        yield from type_differences(place, theirs[name].type, ours[name].hint, ours[name].markers)


def presence_differences(place: str, theirs: Any, ours: Field) -> Iterator[str]:
    filled = [json.loads(marker.json) for marker in ours.markers if isinstance(marker, Default)]
    nullable = theirs.type.type == "union" and "null" in [s.type for s in theirs.type.schemas]
    if ours.required != (not theirs.has_default):
        yield f"{place}: required is {ours.required}"
    if theirs.has_default and not nullable and filled != [without_nulls(theirs.default)]:
        yield f"{place}: {filled} instead of the default {theirs.default}"
    if (nullable or not theirs.has_default) and filled:
        yield f"{place}: has no default"


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def urn_differences(place: str, theirs: dict[str, Any], ours: Field) -> Iterator[str]:
    declared = theirs.get("Relationship")
    expected: list[tuple[str, set[str], str | None]] = []
    if declared is not None:
        ((path, edge),) = {"": declared}.items() if "name" in declared else declared.items()
        at = path.removeprefix("/*").removeprefix("/").removesuffix("/*") or None
        expected = [(edge["name"], set(edge["entityTypes"]), at)]
    markers = (*ours.markers, *bare(next(iter(get_args(ours.hint)), str))[1])
    edges = [
        (marker.relationship, set(marker.kinds), marker.at)
        for marker in markers
        if isinstance(marker, Edge) and not marker.ours
    ]
    if edges != expected:
        yield f"{place}: {edges} instead of the relationship {expected}"
    has_urn = any(isinstance(marker, Edge | UrnOf) for marker in markers)
    if ("Urn" in theirs or "urn_is_array" in theirs) and not has_urn:
        yield f"{place}: holds URNs"


def type_differences(
    place: str, theirs: Any, hint: Any, markers: tuple[object, ...]
) -> Iterator[str]:
    if theirs.type == "union":
        members = [schema for schema in theirs.schemas if schema.type != "null"]
        if len(members) > 1:
            keys = [schema.type for schema in members]
            if OneOf not in markers or list(fields(hint)) != keys:
                yield f"{place}: is a union of {keys}"
            for schema, field in zip(members, fields(hint).values(), strict=False):
                yield from type_differences(place, schema, field.hint, field.markers)
            return
        theirs = members[0]
    scalars = {"string": str, "boolean": bool, "int": int, "long": int}
    scalars |= {"float": float, "double": float}
    if theirs.type == "record":
        yield from record_differences(theirs, hint)
    elif theirs.type == "enum":
        if get_origin(hint) is not Literal or set(get_args(hint)) != set(theirs.symbols):
            yield f"{place}: has the values {theirs.symbols}"
    elif theirs.type in ("array", "map"):
        items = theirs.items if theirs.type == "array" else theirs.values
        if get_origin(hint) is not {"array": list, "map": dict}[theirs.type]:
            yield f"{place}: is {theirs.type}"
        yield from type_differences(place, items, *bare(get_args(hint)[-1]))
    elif hint is not scalars[theirs.type]:
        yield f"{place}: is {theirs.type}"
    elif (Bits(32) in markers) != (theirs.type == "int"):
        yield f"{place}: has the width of {theirs.type}"


@pytest.mark.parametrize("entity_type", sorted(KINDS))
def test_a_key_aspect_is_what_the_sdk_makes_of_the_urn(entity_type: str) -> None:
    urn = urn_of(entity_type)
    name, value = key_aspect(urn)
    theirs = Urn.from_string(urn).to_key_aspect()  # type: ignore[attr-defined]  # typed URNs have it
    assert name == theirs.ASPECT_NAME
    assert value == theirs.to_obj()
    assert_valid_for_sdk(Proposal(urn, name, value))


EVERY_FIELD: dict[str, dict[str, Any]] = {
    "mlModelProperties": {
        "customProperties": {"mlflow.source.name": "train.py"},
        "externalUrl": "http://mlflow:5000/#/experiments/1/runs/a",
        "name": "a run",
        "created": {"time": 1_700_000_000_000, "actor": "urn:li:corpuser:ann"},
        "version": {"versionTag": "3"},
        "hyperParameters": {"lr": {"double": 0.5}, "on": {"boolean": True}},
        "hyperParams": [{"name": "lr", "value": "0.5", "createdAt": 1}],
        "trainingMetrics": [{"name": "loss", "value": "NaN"}],
        "mlFeatures": ["urn:li:mlFeature:(t,f)"],
        "tags": [],
        "groups": ["urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"],
    },
    "ownership": {
        "owners": [{"owner": "urn:li:corpuser:ann", "type": "DATAOWNER"}],
        "lastModified": {"time": 5, "actor": "urn:li:corpuser:ann"},
    },
    "sourceCode": {
        "sourceCode": [{"type": "ML_MODEL_SOURCE_CODE", "sourceCodeUrl": "https://git/x/tree/1"}]
    },
    "status": {"removed": False},
    "structuredProperties": {
        "properties": [
            {
                "propertyUrn": "urn:li:structuredProperty:tier",
                "values": [{"string": "gold"}, {"double": 1.5}],
            }
        ]
    },
}


@pytest.mark.parametrize("name", sorted(EVERY_FIELD))
def test_the_sdk_takes_our_spelling_of_unions_and_nested_records(name: str) -> None:
    urn = urn_of("mlModel")
    assert_valid_for_sdk(Proposal(urn, name, EVERY_FIELD[name]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mlModelProperties", {"name": 3}),
        ("mlModelProperties", {"nmae": "a field that the model does not have"}),
        ("mlModelProperties", {"created": {"time": 1, "who": "a nested one"}}),
        ("versionSetProperties", {"latest": "urn:li:mlModel:x"}),
        ("versionSetProperties", {"an aspect": "of another entity type"}),
    ],
)
def test_what_the_sdk_would_refuse_or_drop_fails(name: str, value: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"parsed|drops|has no aspect|missing"):
        assert_valid_for_sdk(Proposal(urn_of("mlModel"), name, value))
