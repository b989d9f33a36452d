"""Writing and deleting through OpenAPI v3. Everything is stored before it is acknowledged."""

from collections.abc import Sequence
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import NAMES, Limits
from mlcat_ingest.catalog.schema.values import Change, Write
from mlcat_ingest.catalog.store.prepare import check_aspect_name
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Answer, Call
from mlcat_ingest.catalog.web.params import (
    check_count,
    json_list,
    query_flag,
)
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    Endpoint,
    Parameter,
    Schema,
    array,
    ref,
)
from mlcat_ingest.catalog.web.rest.openapi.items import (
    aspects_of,
    read_aspect,
    shown_entity,
    urn_of,
)
from mlcat_ingest.catalog.web.rest.openapi.paths import (
    Target,
    aspects_in,
    entity_type_in,
    target_of,
)
from mlcat_ingest.catalog.web.rest.writes import placed
from mlcat_ingest.metadata.registry import key_aspect_name

_SDK: Final = "SDK DataHubRestEmitter.emit_mcp"

ENTITY_TYPE: Final = Parameter("entityType", "The entity type.", place="path", required=True)
URN: Final = Parameter("urn", "The entity, percent-encoded.", place="path", required=True)
ASPECT: Final = Parameter("aspectName", "The name of the aspect.", place="path", required=True)
SYSTEM: Final = Parameter("systemMetadata", "Whether system metadata is shown.", FLAG)
_ASYNC: Final = Parameter(
    "async", "Answered with 202 in place of 200; stored either way. True by default.", FLAG
)
_CREATE: Final = "Whether the write is refused if the {} exists. False by default."
_CREATING: Final = (
    Parameter("createIfNotExists", _CREATE.format("aspect"), FLAG),
    Parameter("createEntityIfNotExists", _CREATE.format("entity"), FLAG),
)


class Writing:
    """The endpoints that change entities."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Write to `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        many, one = "/openapi/v3/entity/{entityType}", "/openapi/v3/entity/{entityType}/{urn}"
        entities = array(ref("Entity"))
        written: dict[int, Schema | None] = {200: entities, 202: entities}
        return (
            Endpoint(
                *("POST", many, self.write, written, (404, 412)),
                (ENTITY_TYPE, _ASYNC, SYSTEM, *_CREATING),
                array(ref("EntityWrite")),
                client=_SDK,
            ),
            Endpoint(
                *("PATCH", many, self.patch, written, (404, 412)),
                (ENTITY_TYPE, _ASYNC, SYSTEM),
                array(ref("EntityPatch")),
                client=_SDK,
            ),
            Endpoint(
                *("DELETE", one, self.delete, {200: None}, (404,)),
                (
                    ENTITY_TYPE,
                    URN,
                    Parameter("aspects", "Only these, separated by commas."),
                    Parameter("clear", "Whether the entity itself stays.", FLAG),
                ),
                client=_SDK,
            ),
            Endpoint(
                *("DELETE", f"{one}/{{aspectName}}", self.delete_aspect, {200: None}, (404,)),
                (ENTITY_TYPE, URN, ASPECT),
                client=CONNECTOR,
            ),
        )

    def write(self, call: Call) -> Answer:
        """Write aspects of entities of one type, all of them or none."""
        return self._write_many(call, _creation(call))

    def patch(self, call: Call) -> Answer:
        """Edit aspects of entities of one type, all of them or none; made where missing."""
        return self._write_many(call, "PATCH")

    def delete(self, call: Call) -> Answer:
        """Delete an entity with all it has, or some of its aspects."""
        target = target_of(call)
        names = aspects_in(call)
        for name in names or ():
            check_aspect_name(target.entity_type, name)
        if query_flag(call.query, "clear"):
            key = key_aspect_name(target.entity_type)
            held = self._store.get_many([target.urn], names).get(target.urn, {})
            names = [name for name in held if name != key]
        if names is None:
            self._store.delete(target.urn)
        else:
            self._delete_aspects(target.urn, names)
        return Answer()

    def delete_aspect(self, call: Call) -> Answer:
        """Delete one aspect of one entity; its key aspect stands for all of the entity."""
        target = target_of(call)
        self._delete_aspects(target.urn, [_named(target)])
        return Answer()

    def _delete_aspects(self, urn: str, names: Sequence[str]) -> None:
        self._store.write([Write(urn, name, change="DELETE") for name in names])

    def _write_many(self, call: Call, change: Change) -> Answer:
        entity_type = entity_type_in(call)
        items = json_list(call.json(), "the body", self._limits.batch_urns)
        writes: list[Write] = []
        positions: list[int] = []
        for at, item in enumerate(items):
            urn = urn_of(item, at, entity_type)
            with placed("", [at]):
                found = [read_aspect(urn, name, value, change) for name, value in aspects_of(item)]
            if not found:
                raise BadRequestError(f"[{at}]: names no aspect")
            writes += found
            positions += [at] * len(found)
        check_count(writes, "aspects", self._limits.proposals)
        # The answer reads them, and nothing may be refused once it is written.
        check_count({write.aspect for write in writes}, "names of aspects", NAMES)
        with placed("", positions):
            self._store.write(writes)
        return self._written(call, writes, whole=change == "PATCH")

    def _written(self, call: Call, writes: Sequence[Write], *, whole: bool) -> Answer:
        """Return what is stored now: of the entities the `whole`, or just what `writes` wrote."""
        names: dict[str, set[str]] = {}
        for write in writes:
            names.setdefault(write.urn, set()).add(write.aspect)
        wanted = None if whole else {write.aspect for write in writes}
        stored = self._store.get_many(list(names), wanted)
        with_system = query_flag(call.query, "systemMetadata")
        entities: dict[str, dict[str, Any]] = {}
        for urn, written in names.items():
            aspects = stored.get(urn, {})
            kept = {name: aspects[name] for name in aspects if whole or name in written}
            entities[urn] = shown_entity(urn, kept, with_system=with_system)
        for write in writes:
            # Events are not stored as aspects, so they are shown as they came.
            if write.change != "PATCH":
                entities[write.urn].setdefault(write.aspect, {"value": write.value})
        status = 202 if query_flag(call.query, "async", default=True) else 200
        return Answer(status, list(entities.values()))


def _named(target: Target) -> str:
    if target.aspect is None:
        raise BadRequestError(f"{target.urn}: the path names no aspect")
    return target.aspect


def _creation(call: Call) -> Change:
    if query_flag(call.query, "createEntityIfNotExists"):
        return "CREATE_ENTITY"
    return "CREATE" if query_flag(call.query, "createIfNotExists") else "UPSERT"
