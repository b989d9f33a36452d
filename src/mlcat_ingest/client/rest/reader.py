"""Reading stored aspects: one by its endpoint, many at once by the best way the service has.

Source: ``GET /aspects/{urn}``, ``GET /entitiesV2/{urn}``,
``POST /openapi/v3/entity/{type}/batchGet`` and ``GET /openapi/v3/relationship/{type}/{urn}`` of
DataHub.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

from mlcat_ingest.client.base import StoredAspect, stamp_of
from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.responses import NO_SUCH_CALL, in_parts, incompatible
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import KEY_ASPECTS
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import by_entity_type, entity_type_of
from mlcat_ingest.net.http import Reply

log = logging.getLogger(__name__)

_MAX_EDGES: Final = 1_000


class AspectReader:
    """Reads stored aspects. Safe to use from several threads.

    A request that the service refuses is a `CatalogRequestError`, what is no URN an
    `InvalidUrnError`; other errors are as the names of `CatalogUnavailableError`,
    `AuthenticationError`, `NotAuthorizedError` and `ProtocolMismatchError` say.
    """

    def __init__(self, connection: Connection) -> None:
        """Keep the connection; whether the service reads in batches is found out by trying."""
        self._connection = connection
        self.reads_in_batches = True
        """False once the service has shown that it lacks the batch read."""

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return one aspect of an entity, None where it has none; `version` 0 is the latest.

        Cost: one request.
        """
        reply = self._connection.read(
            f"/aspects/{quote(urn, safe='')}?aspect={quote(aspect, safe='')}&version={version}"
        )
        if reply.status == 404:
            return None
        if not reply.ok:
            raise self._connection.refusal(reply, what=f"reading {aspect}", urn=urn)
        body = reply.json()
        # One key, the record's full name: {"com.linkedin.….MLModelProperties": {…}}.
        match body:
            case {"aspect": {**wrapped}} if len(wrapped) == 1:
                (value,) = wrapped.values()
                if isinstance(value, dict):
                    return value
        raise _unknown_shape(reply)

    def read_stamps(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, dict[str, str | None]]:
        """Return the stamps of the stored `aspects` by URN; see `Catalog.read_stamps`.

        DataHub's server does not know the parameter, and sends the values too.
        """
        stored = self._read(urns, aspects, values=False)
        return {
            urn: {name: aspect.stamp for name, aspect in entity.items()}
            for urn, entity in stored.items()
        }

    def _read(
        self, urns: Sequence[str], aspects: Collection[str], *, values: bool
    ) -> dict[str, dict[str, StoredAspect]]:
        wanted = list(dict.fromkeys(aspects))
        by_type = by_entity_type(urns)
        entities: dict[str, dict[str, StoredAspect]] = {}
        # Without a name the service would send every aspect.
        for entity_type, members in by_type.items() if wanted else ():
            read = partial(self._read_chunk, entity_type, aspects=wanted, values=values)
            for chunk in chunks(members, MAX_REQUEST_ITEMS):
                for _, part in in_parts(read, chunk):
                    entities.update(part)
        return {urn: stored for urn, stored in entities.items() if stored}

    def read_versions(self, urn: str, versions: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """Return aspects of an entity in `versions`, 0 for the latest, as the service sends them.

        Each has `value`, `systemMetadata` and `auditStamp`. A version that is not kept is left out.

        Raises as `read_many`, and if the service has no batch read. Cost: one request.
        """
        wanted = {
            name: {"headers": {"If-Version-Match": str(version)}} if version else {}
            for name, version in versions.items()
        }
        path = _batch_path(entity_type_of(urn))
        reply = self._connection.read(path, dumps([{"urn": urn, **wanted}]))
        found = dict(self._entities_in(reply, [urn])).get(urn, {})
        return {name: found[name] for name in versions if isinstance(found.get(name), dict)}

    def incoming(self, urn: str, relationship: str, after: str | None) -> dict[str, Any] | None:
        """Return a page of the edges that end in `urn`, behind the scroll id `after`.

        None where the service has no such call. Edges of removed entities are among them. Some
        servers exchange the directions, so the caller has to look at the destinations.

        Cost: one request for up to 1,000.
        """
        query = {
            "relationshipType[]": relationship,
            "direction": "INCOMING",
            "count": str(_MAX_EDGES),
            "includeSoftDelete": "true",
        }
        if after is not None:
            query["scrollId"] = after
        path = f"/openapi/v3/relationship/{entity_type_of(urn)}/{quote(urn, safe='')}"
        reply = self._connection.read(f"{path}?{urlencode(query)}")
        if reply.status in NO_SUCH_CALL:
            return None
        if not reply.ok:
            raise self._connection.refusal(reply, what="reading relationships", urn=urn)
        page = reply.json()
        if not isinstance(page, dict):
            raise _unknown_shape(reply)
        return page

    def _read_chunk(
        self, entity_type: str, urns: Sequence[str], aspects: Sequence[str], *, values: bool
    ) -> Iterable[tuple[str, dict[str, StoredAspect]]]:
        if not self.reads_in_batches:
            return self._one_by_one(urns, aspects)
        wanted: dict[str, dict[str, str]] = {name: {} for name in aspects}
        path = _batch_path(entity_type) + ("" if values else "&values=false")
        reply = self._connection.read(path, dumps([{"urn": urn, **wanted} for urn in urns]))
        if reply.status not in NO_SUCH_CALL or self._names(reply, entity_type):
            return [
                (urn, _stored_aspects(entity, aspects, reply, values=values))
                for urn, entity in self._entities_in(reply, urns)
            ]
        self.reads_in_batches = False
        log.info("the service has no batch read (%d); reading entities one by one", reply.status)
        return self._one_by_one(urns, aspects)

    def _names(self, reply: Reply, entity_type: str) -> bool:
        """Return whether a refusal is about the entity type: the call itself is there."""
        words = self._connection.message(reply).lower()
        return entity_type.lower() in words and "batchget" not in words

    def _entities_in(
        self, reply: Reply, urns: Sequence[str]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if not reply.ok:
            only = urns[0] if len(urns) == 1 else None
            what = "reading" if only else f"reading {len(urns):,} entities, the first {urns[0]}"
            raise self._connection.refusal(reply, what=what, urn=only)
        body = reply.json()
        if not isinstance(body, list):
            raise _unknown_shape(reply)
        for entity in body:
            if not isinstance(entity, dict) or not isinstance(entity.get("urn"), str):
                raise _unknown_shape(reply)
            yield entity["urn"], entity

    def _one_by_one(
        self, urns: Sequence[str], aspects: Sequence[str]
    ) -> Iterable[tuple[str, dict[str, StoredAspect]]]:
        with ThreadPoolExecutor(min(self._connection.connections, len(urns))) as pool:
            return list(pool.map(lambda urn: (urn, self._read_one(urn, aspects)), urns))

    def _read_one(self, urn: str, aspects: Sequence[str]) -> dict[str, StoredAspect]:
        if len(aspects) == 1 and aspects[0] in KEY_ASPECTS:
            return self._key_of(urn, aspects[0])
        names = ",".join(quote(name, safe="") for name in aspects)
        reply = self._connection.read(f"/entitiesV2/{quote(urn, safe='')}?aspects=List({names})")
        if reply.status == 404:
            return {}
        if not reply.ok:
            raise self._connection.refusal(reply, what="reading an entity", urn=urn)
        body = reply.json()
        entity = body.get("aspects") if isinstance(body, dict) else None
        if not isinstance(entity, dict):
            raise _unknown_shape(reply)
        stored = _stored_aspects(entity, aspects, reply)
        # This endpoint makes up the key aspect of entities that do not exist.
        if len(stored) == 1 and (name := next(iter(stored))).endswith("Key"):
            return self._key_of(urn, name)
        return stored

    def _key_of(self, urn: str, name: str) -> dict[str, StoredAspect]:
        value = self.get_aspect(urn, name)
        return {} if value is None else {name: StoredAspect(value)}


def _batch_path(entity_type: str) -> str:
    return f"/openapi/v3/entity/{quote(entity_type, safe='')}/batchGet?systemMetadata=true"


def _stored_aspects(
    entity: Mapping[str, Any], aspects: Sequence[str], reply: Reply, *, values: bool = True
) -> dict[str, StoredAspect]:
    stored: dict[str, StoredAspect] = {}
    for name in aspects:
        envelope = entity.get(name)
        if envelope is None:
            continue
        value = envelope.get("value") if isinstance(envelope, dict) else None
        if not isinstance(envelope, dict) or (values and not isinstance(value, dict)):
            raise _unknown_shape(reply)
        system = envelope.get("systemMetadata")
        system = system if isinstance(system, dict) else {}
        version = None if system.get("version") is None else str(system["version"])
        stored[name] = StoredAspect(value or {}, version, stamp_of(version, system))
    return stored


def _unknown_shape(reply: Reply) -> ProtocolMismatchError:
    return incompatible(f"{reply.peer} at {reply.url} sent an unknown reply")
