"""Writing and deleting through OpenAPI v3. Everything is stored before it is acknowledged."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import NAMES
from mlcat_ingest.catalog.schema.values import Change, Write
from mlcat_ingest.catalog.store.prepare import check_aspect_name
from mlcat_ingest.catalog.web.http import Answer, Call
from mlcat_ingest.catalog.web.params import check_count, json_list, query_flag
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    Endpoint,
    Parameter,
    Resource,
    Schema,
    array,
    ref,
)
from mlcat_ingest.catalog.web.rest.openapi.items import (
    ASPECT,
    ENTITIES,
    ENTITY,
    ENTITY_ASPECT,
    ENTITY_TYPE,
    SYSTEM,
    URN,
    aspects_in,
    aspects_of,
    entity_items,
    entity_type_in,
    read_aspect,
    target_of,
    urn_of,
)
from mlcat_ingest.metadata.registry import allows, key_aspect_name

_SDK: Final = "SDK DataHubRestEmitter.emit_mcp"

_ASYNC: Final = Parameter(
    "async",
    "Status 202 instead of 200; the write is synchronous in both cases. Default: true.",
    FLAG,
)


_WRITTEN: Final[Mapping[int, Schema]] = dict.fromkeys((200, 202), array(ref("Entity")))


class Writing(Resource):
    """The endpoints that change entities."""

    @Endpoint(
        "POST",
        ENTITIES,
        _WRITTEN,
        (404, 412),
        (ENTITY_TYPE, _ASYNC, SYSTEM),
        array(ref("EntityWrite")),
        client=_SDK,
    )
    def write(self, call: Call) -> Answer:
        """Write aspects of entities of one type, all of them or none.

        As on a DataHub server, `createIfNotExists` and `createEntityIfNotExists` do not act here.
        """
        return self._write_many(call, "UPSERT")

    @Endpoint(
        "PATCH",
        ENTITIES,
        _WRITTEN,
        (404, 412),
        (ENTITY_TYPE, _ASYNC, SYSTEM),
        array(ref("EntityPatch")),
        client=_SDK,
    )
    def patch(self, call: Call) -> Answer:
        """Edit aspects of entities of one type, all of them or none; made where missing."""
        return self._write_many(call, "PATCH")

    @Endpoint(
        "DELETE",
        ENTITY,
        {200: None},
        (404,),
        (
            ENTITY_TYPE,
            URN,
            Parameter("aspects", "Names of the aspects to delete, separated by commas."),
            Parameter("clear", "Whether to keep the entity itself.", FLAG),
        ),
        client=_SDK,
    )
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

    @Endpoint(
        "DELETE",
        ENTITY_ASPECT,
        {200: None},
        (404,),
        (ENTITY_TYPE, URN, ASPECT),
        client=CONNECTOR,
    )
    def delete_aspect(self, call: Call) -> Answer:
        """Delete one aspect of one entity; its key aspect stands for all of the entity."""
        target = target_of(call)
        if target.aspect is not None and allows(target.entity_type, target.aspect):
            self._delete_aspects(target.urn, [target.aspect])
        return Answer()

    def _delete_aspects(self, urn: str, names: Sequence[str]) -> None:
        self._store.write([Write(urn, name, change="DELETE") for name in names])

    def _write_many(self, call: Call, change: Change) -> Answer:
        entity_type = entity_type_in(call)
        items = json_list(call.json(), "the body", self._limits.batch_urns)

        def read(at: int, item: Any) -> list[Write]:
            urn = urn_of(item, at, entity_type)
            if None in item.values():
                raise BadRequestError(f"[{at}]: an aspect is null")
            return [read_aspect(urn, name, value, change) for name, value in aspects_of(item)]

        writes = [write for at, item in enumerate(items) for write in read(at, item)]
        check_count(writes, "aspects", self._limits.proposals)
        # The answer reads them, and nothing may be refused once it is written.
        check_count({write.aspect for write in writes}, "names of aspects", NAMES)
        urns = {write.urn for write in writes}
        known = self._store.exists(urns)
        self._store.write(writes)
        return self._stored_items(call, writes, whole=urns if change == "PATCH" else urns - known)

    def _stored_items(
        self, call: Call, writes: Sequence[Write], *, whole: Collection[str]
    ) -> Answer:
        """Return what is stored now: of the entities in `whole` all, else what `writes` wrote."""
        names: dict[str, set[str]] = {}
        for write in writes:
            names.setdefault(write.urn, set()).add(write.aspect)
        stored = self._store.get_many(list(names))
        aspects = {
            urn: {
                name: aspect
                for name, aspect in stored.get(urn, {}).items()
                if urn in whole or name in written
            }
            for urn, written in names.items()
        }
        entities = {item["urn"]: item for item in entity_items(call.query, aspects)}
        for write in writes:
            # Events are not stored as aspects, so they are shown as they came.
            if write.change != "PATCH":
                entities[write.urn].setdefault(write.aspect, {"value": write.value})
        status = 202 if query_flag(call.query, "async", default=True) else 200
        return Answer(status, list(entities.values()))
