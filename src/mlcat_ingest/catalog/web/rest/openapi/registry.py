"""Which entity types there are, and which aspects each may have."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import page_of
from mlcat_ingest.catalog.web.rest.endpoint import (
    OBJECT,
    WHOLE,
    Endpoint,
    Parameter,
    array,
    record,
)
from mlcat_ingest.metadata.registry import ASPECTS, ENTITY_TYPES, allows, key_aspect_name


class RegistryEndpoint:
    """The endpoint of the registry of entity types."""

    def __init__(self, limits: Limits) -> None:
        """Answer within `limits`."""
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        page = record(
            *("elements", "start", "count", "total"),
            elements=array(OBJECT),
            start=WHOLE,
            count=WHOLE,
            total=WHOLE,
        )
        return (
            Endpoint(
                *("GET", "/openapi/v1/registry/models/entity/specifications"),
                *(self.get, {200: page}),
                client="SDK DataHubGraph.get_entity_aspect_specs",
                parameters=(
                    Parameter("start", "How many entity types to pass over.", WHOLE),
                    Parameter("count", "Most entity types to return, 20 by default.", WHOLE),
                ),
            ),
        )

    def get(self, call: Call) -> dict[str, Any]:
        """Read a page of the entity types, each with its key aspect and all it may have."""
        start, count = page_of(call.query, self._limits, count=20)
        types = sorted(ENTITY_TYPES)
        elements = [_specification(name) for name in types[start : start + count]]
        return {"elements": elements, "start": start, "count": len(elements), "total": len(types)}


@cache
def _specification(entity_type: str) -> Mapping[str, Any]:
    key = key_aspect_name(entity_type)
    # Types that are not in the table may have any aspect, so all known ones are theirs.
    names = sorted(name for name in ASPECTS if name != key and allows(entity_type, name))
    return {
        "name": entity_type,
        "keyAspectName": key,
        "keyAspectSpec": _aspect(key),
        "aspectSpecs": [_aspect(name) for name in names],
    }


def _aspect(name: str) -> Mapping[str, Any]:
    spec = ASPECTS.get(name)
    return {"aspectAnnotation": {"name": name, "timeseries": spec is not None and spec.timeseries}}
