"""Our table of lineage edges against the annotations in the SDK's copy of the metadata model."""

from collections.abc import Iterator
from typing import Any

from datahub.metadata.schema_classes import ASPECT_NAME_MAP

from mlcat_ingest.catalog.store.graph import FROM_DESTINATION, TO_DESTINATION
from mlcat_ingest.metadata.urn import KINDS
from support.sdk_schema import aspects_of

TYPES = {*KINDS, "chart", "dashboard"}


def annotations(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every relationship that a record, or a record inside it, declares."""
    if schema.type == "record":
        for field in schema.fields:
            declared = field.other_props.get("Relationship")
            if declared is not None:
                yield from [declared] if "name" in declared else declared.values()
            yield from annotations(field.type)
    elif schema.type in {"array", "map"}:
        yield from annotations(schema.items if schema.type == "array" else schema.values)
    elif schema.type == "union":
        for member in schema.schemas:
            yield from annotations(member)


def test_the_table_is_the_model() -> None:
    upstream: set[tuple[str, str]] = set()
    downstream: set[tuple[str, str]] = set()
    for entity_type in TYPES:
        for name in aspects_of(entity_type) & ASPECT_NAME_MAP.keys():
            for edge in annotations(ASPECT_NAME_MAP[name].RECORD_SCHEMA):
                if edge.get("isLineage"):
                    found = upstream if edge.get("isUpstream", True) else downstream
                    found.add((entity_type, edge["name"]))
    assert upstream == {edge for edge in FROM_DESTINATION if edge[0] in TYPES}
    assert downstream == {edge for edge in TO_DESTINATION if edge[0] in TYPES}
