"""The edges of an entity, in both directions."""

from collections.abc import Sequence
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import Direction
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import page_of, query_list, required
from mlcat_ingest.catalog.web.rest.endpoint import (
    TEXT,
    URN,
    WHOLE,
    Endpoint,
    Parameter,
    array,
    record,
)

_PATH: Final = "/openapi/relationships/v1/"
_COUNT: Final = 200


class Relationships:
    """The endpoint of relationships."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        related = record("urn", "relationshipType", urn=URN, relationshipType=TEXT)
        page = record(
            *("entities", "start", "count", "total"),
            entities=array(related),
            start=WHOLE,
            count=WHOLE,
            total=WHOLE,
        )
        directions = {"type": "string", "enum": [one.value for one in Direction]}
        return (
            Endpoint(
                *("GET", _PATH, self.get, {200: page}),
                client="SDK DataHubGraph.get_related_entities",
                parameters=(
                    Parameter("urn", "The entity.", URN, required=True),
                    Parameter("direction", "Which end `urn` is.", directions, required=True),
                    Parameter("relationshipTypes", "Only these, repeated; all without any."),
                    Parameter("start", "How many to pass over.", WHOLE),
                    Parameter("count", f"Most to return, {_COUNT} by default.", WHOLE),
                ),
            ),
        )

    def get(self, call: Call) -> dict[str, Any]:
        """Read a page of the entities at the other end of an entity's edges."""
        urn = required(call.query, "urn")
        check_urn(urn)
        named = required(call.query, "direction").upper()
        if named not in Direction.__members__:
            raise BadRequestError(f"direction: {named!r} is neither INCOMING nor OUTGOING")
        start, count = page_of(call.query, self._limits, count=_COUNT)
        types = query_list(call.query, "relationshipTypes")
        page = self._store.related([urn], types, Direction[named], start, count)[urn]
        found = [{"urn": one.urn, "relationshipType": one.relationship} for one in page.entities]
        return {"entities": found, "start": start, "count": len(found), "total": page.total}
