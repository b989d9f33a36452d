"""Prints the metadata model of the DataHub SDK in this environment, as one JSON object.

`entities` has the aspects of each entity type, `fields` the paths of each aspect's fields, `values`
the values of enumerations, as `path=VALUE`. Lists leave no trace in a path, the values of a map are
`path.*`, and a member of a union stands by its name on the wire. `table` and `records` are the rows
of `schema.csv` and `records.csv` in `src/mlcat_ingest/metadata`. It imports nothing but the SDK, so
that the environment of any release can run it.
"""

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from datahub.metadata.schema_classes import ASPECT_NAME_MAP, KEY_ASPECTS


def paths(schema: Any, place: str, active: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the paths below `place`; a record that holds itself is entered once."""
    match schema.type:
        case "record" | "error" if schema.fullname not in active:
            for field in schema.fields:
                # The SDK's classes name the member of a union that is there; the wire does not.
                if field.name != "fieldDiscriminator":
                    yield f"{place}.{field.name}"
                    yield from paths(
                        field.type, f"{place}.{field.name}", active | {schema.fullname}
                    )
        case "union":
            members = [member for member in schema.schemas if member.type != "null"]
            for member in members:
                below = place if len(members) == 1 else f"{place}.{wire_name(member)}"
                if below != place:
                    yield below
                yield from paths(member, below, active)
        case "array":
            yield from paths(schema.items, place, active)
        case "map":
            yield f"{place}.*"
            yield from paths(schema.values, f"{place}.*", active)
        case "enum":
            yield from (f"{place}={symbol}" for symbol in schema.symbols)
        case _:  # a scalar, or a record within itself
            pass


def wire_name(schema: Any) -> str:
    """Return the name of a type on the wire."""
    return str(getattr(schema, "fullname", schema.type)).replace(".pegasus2avro.", ".")


def table() -> list[list[str]]:
    """Return a row for each aspect of an entity type, after a row of the columns' names."""
    entity_types: dict[str, list[str]] = {}
    for entity_type, key in sorted(KEY_ASPECTS.items()):
        for name in {key.ASPECT_NAME, *key.get_aspect_info()["entityAspects"]}:
            entity_types.setdefault(name, []).append(entity_type)
    keys = {key.ASPECT_NAME for key in KEY_ASPECTS.values()}
    rows = [["aspect", "record", "entity_types", "timeseries", "key"]]
    for name, types in sorted(entity_types.items()):
        schema: Any = ASPECT_NAME_MAP[name].RECORD_SCHEMA
        rows.append(
            [
                name,
                wire_name(schema),
                " ".join(types),
                "yes" if schema.get_prop("Aspect").get("type") == "timeseries" else "",
                " ".join(one.name for one in schema.fields if name in keys),
            ]
        )
    return rows


def records() -> list[list[str]]:
    """Return a row for each field of each record, after a row of the columns' names."""
    found: dict[str, list[list[str]]] = {}
    pending: list[Any] = [one.RECORD_SCHEMA for one in ASPECT_NAME_MAP.values()]
    while pending:
        schema = pending.pop()
        name = wire_name(schema)
        if name not in found:
            fields = [one for one in schema.fields if one.name != "fieldDiscriminator"]
            found[name] = [[name, *field_row(one)] for one in fields]
            pending += (one for field in fields for one in records_in(field.type))
    columns = ["record", "field", "type", "default", "urn"]
    edge = ["relationship", "destinations", "at", "lineage"]
    return [[*columns, *edge], *(row for name in sorted(found) for row in found[name])]


def records_in(schema: Any) -> Iterator[Any]:
    """Yield the records that a value of a type may hold, but for those within these."""
    match schema.type:
        case "record":
            yield schema
        case "union":
            for member in schema.schemas:
                yield from records_in(member)
        case "array" | "map":
            yield from records_in(schema.items if schema.type == "array" else schema.values)
        case _:
            pass


def field_row(field: Any) -> list[str]:
    """Return name, type and default of a field, the kind of its URNs, and the edge to them.

    Only a required field has no default; that of a field which may be null is null. The edge is its
    relationship, the types of entities at its other end, the field of the nested record that holds
    the URN, and the direction of lineage.
    """
    default = ""
    if field.has_default:
        nullable = field.type.type == "union" and "null" in [one.type for one in field.type.schemas]
        value = None if nullable else without_nulls(field.default)
        default = json.dumps(value, separators=(",", ":"))
    row = [field.name, type_text(field.type), default, field.other_props.get("Urn", "")]
    edge = field.other_props.get("Relationship")
    if edge is None:
        kinds = field.other_props.get("UrnValidation", {}).get("entityTypes", ())
        return [*row, "", " ".join(sorted(set(kinds))), "", ""]
    ((at, edge),) = {"": edge}.items() if "name" in edge else edge.items()
    types = " ".join(sorted(set(edge["entityTypes"])))
    lineage = "upstream" if edge.get("isUpstream", True) else "downstream"
    at = at.removeprefix("/*").removeprefix("/").removesuffix("/*")
    return [*row, edge["name"], types, at, lineage if edge.get("isLineage") else ""]


def without_nulls(value: Any) -> Any:
    """Return a default as the wire has it: without fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def type_text(schema: Any) -> str:
    """Return a type as `records.csv` has it: by words, the outermost one first."""
    match schema.type:
        case "union":
            members = [one for one in schema.schemas if one.type != "null"]
            if len(members) == 1:
                return type_text(members[0])
            return " ".join(["union", *map(wire_name, members)])
        case "enum":
            return " ".join(["enum", *schema.symbols])
        case "array":
            return f"list {type_text(schema.items)}"
        case "map":
            return f"map {type_text(schema.values)}"
        case "record" if "fieldDiscriminator" in schema.fields_dict:
            return f"one {wire_name(schema)}"
        case _:
            return wire_name(schema)


def model() -> dict[str, Any]:
    """Return the model of the SDK."""
    found = {
        path for name, cls in ASPECT_NAME_MAP.items() for path in paths(cls.RECORD_SCHEMA, name)
    }
    return {
        "sdk": version("acryl-datahub"),
        "entities": {
            entity_type: sorted({key.ASPECT_NAME, *key.get_aspect_info()["entityAspects"]})
            for entity_type, key in KEY_ASPECTS.items()
        },
        "table": table(),
        "records": records(),
        "fields": sorted(path for path in found if "=" not in path),
        "values": sorted(path for path in found if "=" in path),
    }


if __name__ == "__main__":
    print(json.dumps(model()))
