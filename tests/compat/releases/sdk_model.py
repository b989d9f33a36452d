"""Prints the metadata model of the DataHub SDK in this environment, as one JSON object.

`entities` has the aspects of each entity type, `fields` the paths of each aspect's fields, `values`
the values of enumerations, as `path=VALUE`. Lists leave no trace in a path, the values of a map are
`path.*`, and a member of a union stands by its name on the wire. It imports nothing but the SDK, so
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
                name = getattr(member, "fullname", member.type).replace(".pegasus2avro.", ".")
                below = place if len(members) == 1 else f"{place}.{name}"
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
        "fields": sorted(path for path in found if "=" not in path),
        "values": sorted(path for path in found if "=" in path),
    }


if __name__ == "__main__":
    print(json.dumps(model()))
