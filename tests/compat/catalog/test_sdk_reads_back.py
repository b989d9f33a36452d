"""DataHub's SDK reads back each aspect that it wrote, of all that its registry allows.

DataHub's own sample data is a file of snapshots; the SDK does not bring it, so each kind of
snapshot is sent here with every aspect that it may have.
"""

from typing import Any

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.metadata import schema_classes
from datahub.metadata.schema_classes import ASPECT_NAME_MAP, KEY_ASPECTS

from mlcat_ingest.metadata.urn import raw_parts
from support.sdk_schema import aspects_of
from support.sdk_values import filled_aspect, urn_of

SNAPSHOTS = [
    cls
    for name, cls in sorted(vars(schema_classes).items())
    if name.endswith("SnapshotClass") and not name.startswith("DataHub")
]
# The server's results are unions, which the SDK does not write.
NOT_WRITTEN = {"mlModelQuantitativeAnalyses"}
COMPUTED = {
    "versionProperties": "isLatest",
    "ownership": "ownerTypes",
    "domains": "domainAssociations",
}


@pytest.mark.parametrize("entity_type", sorted(KEY_ASPECTS))
def test_each_aspect_is_read_back_as_it_was_written(graph: Any, entity_type: str) -> None:
    urn = urn_of(entity_type)
    key = KEY_ASPECTS[entity_type]
    names = aspects_of(entity_type) - {key.ASPECT_NAME} - NOT_WRITTEN
    if entity_type == "versionSet":
        version = filled_aspect("versionProperties", "mlModel")
        version.versionSet = urn
        graph.emit(MetadataChangeProposalWrapper(entityUrn=urn_of("mlModel"), aspect=version))
    written = {name: filled_aspect(name, entity_type) for name in sorted(names)}
    parts = (field.name for field in key.RECORD_SCHEMA.fields)
    written[key.ASPECT_NAME] = key(**dict(zip(parts, raw_parts(urn), strict=True)))
    for aspect in written.values():
        graph.emit(MetadataChangeProposalWrapper(entityUrn=urn, aspect=aspect))
    versioned = {name for name in written if not _is_series(name)}
    found = graph.get_entities(entity_type, [urn], sorted(versioned))[urn]
    for name, aspect in written.items():
        sent = _shown(name, aspect)
        assert _shown(name, _read(graph, urn, name)) == sent
        if name in versioned:
            assert _shown(name, found[name][0]) == sent, f"{name} through OpenAPI"


def _shown(name: str, aspect: Any) -> Any:
    assert aspect is not None, f"{name} is not there"
    shown = aspect.to_obj()
    shown.pop(COMPUTED.get(name, ""), None)
    return shown


def _is_series(name: str) -> bool:
    info: Any = ASPECT_NAME_MAP[name].RECORD_SCHEMA.get_prop("Aspect")
    return "timeseries" in info.values()


def _read(graph: Any, urn: str, name: str) -> Any:
    cls = ASPECT_NAME_MAP[name]
    if _is_series(name):
        return graph.get_latest_timeseries_value(urn, cls, {})
    return graph.get_aspect(urn, cls)


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda cls: cls.__name__)
def test_each_aspect_of_a_snapshot_arrives(graph: Any, snapshot: Any) -> None:
    schema = snapshot.RECORD_SCHEMA
    entity_type = schema.get_prop("Entity")["name"]
    urn = urn_of(entity_type)
    members = schema.fields_dict["aspects"].type.items.schemas
    names = [member.get_prop("Aspect")["name"] for member in members]
    key = KEY_ASPECTS[entity_type].ASPECT_NAME
    aspects = [
        filled_aspect(name, entity_type) for name in names if name not in {key, *NOT_WRITTEN}
    ]
    graph.emit(schema_classes.MetadataChangeEventClass(snapshot(urn=urn, aspects=aspects)))
    for aspect in aspects:
        read = _read(graph, urn, aspect.ASPECT_NAME)
        assert _shown(aspect.ASPECT_NAME, read) == _shown(aspect.ASPECT_NAME, aspect)
