"""Prints the metadata model of the DataHub SDK in this environment, as one JSON object.

`entities` has the aspects of each entity type, `fields` the paths of each aspect's fields, `values`
the values of enumerations, as `path=VALUE`. Lists leave no trace in a path, the values of a map are
`path.*`, and a member of a union stands by its name on the wire. `table` has the rows of
`src/mlcat_ingest/metadata/schema.csv`. It imports nothing but the SDK, so that the environment of
any release can run it.
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


def rules(schema: Any, place: str = "") -> Iterator[str]:
    """Yield `path?member|member` of each union and `path:type|type` of each reference below it.

    A reference is a URN of one of these entity types; `*` is any item of a list or a map.
    """
    match schema.type:
        case "record" if "fieldDiscriminator" in schema.fields_dict:
            names = (one.name for one in schema.fields if one.name != "fieldDiscriminator")
            yield f"{place}?{'|'.join(names)}"
        case "record":
            for field in schema.fields:
                yield from destinations(field, f"{place}/{field.name}")
                yield from rules(field.type, f"{place}/{field.name}")
        case "union":
            members = {wire_name(one): one for one in schema.schemas if one.type != "null"}
            if len(members) > 1:
                yield f"{place}?{'|'.join(members)}"
            for name, member in members.items():
                yield from rules(member, place if len(members) == 1 else f"{place}/{name}")
        case "array" | "map":
            yield from rules(
                schema.items if schema.type == "array" else schema.values, f"{place}/*"
            )
        case _:
            pass


def destinations(field: Any, place: str) -> Iterator[str]:
    """Yield `path:type|type` of the URNs in a field."""
    edge = field.other_props.get("Relationship") or {}
    edges = {"": edge} if "name" in edge else dict(edge)
    if not edge and "UrnValidation" in field.other_props:
        edges["/*" if "urn_is_array" in field.other_props else ""] = field.other_props[
            "UrnValidation"
        ]
    for at, one in edges.items():
        yield f"{place}{at}:{'|'.join(sorted(set(one['entityTypes'])))}"


def table() -> list[list[str]]:
    """Return a row for each aspect of an entity type, after a row of the columns' names."""
    entity_types: dict[str, list[str]] = {}
    for entity_type, key in sorted(KEY_ASPECTS.items()):
        for name in {key.ASPECT_NAME, *key.get_aspect_info()["entityAspects"]}:
            entity_types.setdefault(name, []).append(entity_type)
    keys = {key.ASPECT_NAME for key in KEY_ASPECTS.values()}
    rows = [["aspect", "record", "entity_types", "timeseries", "key", "rules"]]
    for name, types in sorted(entity_types.items()):
        schema: Any = ASPECT_NAME_MAP[name].RECORD_SCHEMA
        rows.append(
            [
                name,
                wire_name(schema),
                " ".join(types),
                "yes" if schema.get_prop("Aspect").get("type") == "timeseries" else "",
                " ".join(one.name for one in schema.fields if name in keys),
                " ".join(rules(schema)),
            ]
        )
    return rows


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
        "fields": sorted(path for path in found if "=" not in path),
        "values": sorted(path for path in found if "=" in path),
    }


if __name__ == "__main__":
    print(json.dumps(model()))
