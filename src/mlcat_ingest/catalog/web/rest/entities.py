"""`/entitiesV2`, `/entities` and `/aspects`: entities and aspects, proposals and snapshots.

Snapshots are an older form of an entity: `datahub ingest` of Feast and SageMaker sends them
where its sink is in the mode SYNC or ASYNC.
Source: `emit_mce` of DataHub's Python client; `EntityResource.java`;
`com.linkedin.metadata.snapshot.*`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError, NotFoundError
from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_VALUES
from mlcat_ingest.catalog.schema.values import SYSTEM_ACTOR, TimeseriesEvent, Write
from mlcat_ingest.catalog.store.graph import delete_references, find_references
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.reads import Span, delete_events, read_events
from mlcat_ingest.catalog.web.http import (
    RequestContext,
    Schema,
    check_count,
    json_list,
)
from mlcat_ingest.catalog.web.rest import json_schema as js
from mlcat_ingest.catalog.web.rest.endpoint import Endpoint, Parameter, Resource, action
from mlcat_ingest.catalog.web.rest.proposals import (
    ManyProposals,
    OneProposal,
    aspects_of_record,
    make_write,
    read_proposal,
    unescape_envelope,
)
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.codec import dumps, embedded
from mlcat_ingest.metadata.registry import (
    ASPECTS,
    ENTITY_TYPES,
    allows,
    key_aspect,
    key_aspect_name,
)
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts

_WRITTEN: Final = "success"


def _few(items: Schema) -> Schema:
    return {**js.array(items), "maxItems": SEARCH_CRITERIA}


_CRITERION: Final = js.record(
    "field",
    field=js.TEXT,
    values={**js.array(js.TEXT), "maxItems": SEARCH_VALUES},
    value=js.TEXT,
    condition={**js.TEXT, "enum": ["EQUAL", ""]},
    negated={**js.FLAG, "enum": [False]},
)
_FILTER: Final = js.record(**{"or": _few(js.record(**{"and": _few(_CRITERION)}))})

_Alternatives: TypeAlias = Sequence[Mapping[str, Collection[str]]]
"""Fields with their values, all of which an event has; one of the alternatives has to hold."""


class Aspects(Resource):
    """The endpoints of `/aspects`."""

    @action("/aspects", "ingestProposal", body=OneProposal, returns=js.TEXT, refuses=(422,))
    def ingest_proposal(self, request: RequestContext) -> str:
        """Write one proposal; it is stored when this replies, with any value of `async`."""
        self._store.write([read_proposal(unescape_envelope(request.params["proposal"]))])
        return _WRITTEN

    @action("/aspects", "ingestProposalBatch", body=ManyProposals, returns=js.TEXT, refuses=(422,))
    def ingest_proposal_batch(self, request: RequestContext) -> str:
        """Write all proposals of a batch, in their order, or none of them."""
        proposals = json_list(request.params["proposals"], "proposals", self._limits.proposals)
        self._store.write([read_proposal(proposal) for proposal in proposals])
        return _WRITTEN

    @Endpoint(
        "GET",
        "/aspects/{urn}",
        {200: js.record("version", "aspect", version=js.WHOLE, aspect=js.OBJECT)},
        (404,),
        (
            Parameter("aspect", "Name of the aspect.", required=True),
            Parameter(
                "version",
                "0 for the latest version, 1 for the oldest of the earlier ones, -1 for the last.",
                js.INTEGER,
                required=True,
            ),
        ),
    )
    def get(self, request: RequestContext) -> dict[str, Any]:
        """Read one aspect, its latest version or an archived one, keyed by its record's name.

        The latest version is only at 0: its own number is not used until the next one archives it.
        """
        urn = request.urn_after("/aspects/")
        aspect, version = request.params["aspect"], request.params["version"]
        latest = self._store.get_many([urn], [aspect]).get(urn, {}).get(aspect)
        if latest is not None and version < 0:
            version += latest.version
        stored = latest if version == 0 else None
        if version > 0 and (latest is None or version < latest.version):
            stored = self._store.get_version(urn, aspect, version)
        spec = ASPECTS.get(aspect)
        if stored is None or spec is None:
            which = f"version {version} of {aspect}" if version else aspect
            raise NotFoundError(f"{urn} has no {which}")
        return {"version": version, "aspect": {spec.record: embedded(stored.text)}}

    @action(
        "/aspects",
        "getTimeseriesAspectValues",
        reads=True,
        body=js.record(
            *("urn", "aspect"),
            urn=js.URN,
            entity=js.TEXT,
            aspect=js.TEXT,
            limit={**js.WHOLE, "default": 100},
            latestValue=js.FLAG,
            filter=_FILTER,
        ),
        returns=js.record("values", values=js.array(js.record("aspect", aspect=js.OBJECT))),
    )
    def get_values(self, request: RequestContext) -> dict[str, Any]:
        """Read the events of a timeseries aspect of one entity, the newest first."""
        params = request.params
        urn, aspect = params["urn"], params["aspect"]
        entity_type = check_urn(urn)
        limit = 1 if params.get("latestValue") else min(params["limit"], self._limits.page_size)
        wanted = _alternatives(params.get("filter", {}))
        events = self._events(urn, Span(aspect), wanted, limit)
        return {
            "entityName": entity_type,
            "aspectName": aspect,
            "limit": limit,
            "values": [_event_item(aspect, event) for event in events],
        }

    def _events(
        self, urn: str, span: Span, wanted: _Alternatives, limit: int
    ) -> Sequence[TimeseriesEvent]:
        """Return the newest events that match; of the newest ten thousand, where there are more."""
        read = limit
        while True:
            events = self._store.read(read_events, urn, span, read)
            matching = [event for event in events if _matches(event.value, wanted)]
            # A filter may leave too few: twice as many are read until there are enough.
            if len(matching) >= limit or len(events) < read or read >= self._limits.page_size:
                return matching[:limit]
            read = min(2 * read, self._limits.page_size)


def _alternatives(given: Mapping[str, Any]) -> _Alternatives:
    """Return the alternatives of a filter; none without one.

    Raises:
        BadRequestError: a criterion has no values.
    """
    return [
        dict(_equality(criterion, f"filter.or[{at}].and") for criterion in item.get("and", ()))
        for at, item in enumerate(given.get("or", ()))
    ]


def _equality(criterion: Mapping[str, Any], where: str) -> tuple[str, Collection[str]]:
    if "values" in criterion:
        return criterion["field"], criterion["values"]
    # As clients before 1.0 name it.
    if not criterion.get("value"):
        raise BadRequestError(f"{where}.value: the parameter is missing")
    return criterion["field"], [criterion["value"]]


def _matches(event: Mapping[str, Any], any_of: _Alternatives) -> bool:
    return not any_of or any(
        all(event.get(field) in values for field, values in all_of.items()) for all_of in any_of
    )


def _event_item(aspect: str, event: TimeseriesEvent) -> dict[str, Any]:
    # DataHub's command line takes away `name`, `type` and `version`, so they have to be there.
    content = {
        "name": aspect,
        "type": "TIMESERIES",
        "version": 0,
        "value": dumps(event.value).decode(),
        "contentType": "application/json",
    }
    return {"aspect": content, "systemMetadata": dict(event.system_metadata)}


_SNAPSHOT: Final = "com.linkedin.metadata.snapshot."
_OBJECTS: Final[Schema] = {**js.OBJECT, "additionalProperties": js.OBJECT}
_RECORDS: Final = js.record("urn", "aspects", urn=js.URN, aspects=js.array(_OBJECTS))
_ENTITY: Final = js.record("value", value={**js.OBJECT, "additionalProperties": _RECORDS})
_DELETION: Final = js.record(
    "urn", urn=js.URN, aspectName=js.TEXT, startTimeMillis=js.WHOLE, endTimeMillis=js.WHOLE
)
_DELETED: Final = js.record(
    *("urn", "rows", "timeseriesRows"), urn=js.URN, rows=js.WHOLE, timeseriesRows=js.WHOLE
)


class Entities(Resource):
    """The endpoints that read and delete whole entities, and write snapshots."""

    @Endpoint(
        "GET",
        "/entitiesV2/{urn}",
        {200: js.record("urn", "aspects", urn=js.URN)},
        parameters=(
            Parameter("aspects", "Names of the aspects to return: `List(a,b)`.", js.array(js.TEXT)),
        ),
    )
    def get(self, request: RequestContext) -> dict[str, Any]:
        """Read all aspects of an entity, or those of `aspects=List(a,b)`, and its key aspect.

        The key aspect of an entity that does not exist has no system metadata: clients tell by
        that.
        """
        urn = request.urn_after("/entitiesV2/")
        entity_type = entity_type_of(urn)
        if entity_type not in ENTITY_TYPES:
            raise NotFoundError(f"{entity_type!r} is not an entity type of this catalog")
        stored = self._store.get_many([urn], request.params.get("aspects") or None)
        aspects = {
            name: _envelope(name, embedded(aspect.text), aspect.modified_ms, aspect.modified_by)
            | {"systemMetadata": aspect.wire_system_metadata()}
            for name, aspect in stored.get(urn, {}).items()
        }
        key = key_aspect_name(entity_type)
        if key not in aspects:
            aspects[key] = _envelope(key, _key_of(urn, key), now_ms(), SYSTEM_ACTOR)
        return {"urn": urn, "entityName": entity_type, "aspects": aspects}

    @action("/entities", "delete", body=_DELETION, returns=_DELETED)
    def delete(self, request: RequestContext) -> dict[str, Any]:
        """Delete an entity with all it has, or the events of one of its timeseries aspects.

        An entity that does not exist counts no rows.
        """
        params = request.params
        urn = params["urn"]
        check_urn(urn)
        if "aspectName" in params:
            times = params.get("startTimeMillis"), params.get("endTimeMillis")
            span = Span(params["aspectName"], *times)
            events = self._store.change(delete_events, urn, span)
            return {"urn": urn, "rows": 0, "timeseriesRows": events}
        gone = self._store.delete(urn)
        return {"urn": urn, "rows": gone.rows, "timeseriesRows": gone.timeseries_rows}

    @action(
        "/entities",
        "deleteReferences",
        body=js.record("urn", urn=js.URN, dryRun=js.FLAG),
        returns=js.record("total", total=js.WHOLE, relatedAspects=js.array(js.OBJECT)),
    )
    def delete_references(self, request: RequestContext) -> dict[str, Any]:
        """Remove an entity from every aspect that names it, or only list these aspects."""
        urn = request.params["urn"]
        check_urn(urn)
        if request.params.get("dryRun"):
            references = self._store.read(find_references, urn)
        else:
            references = delete_references(self._store, urn)
        return {
            "total": references.total,
            "relatedAspects": [
                {"entity": entity, "relationship": relationship, "aspect": aspect}
                for entity, relationship, aspect in references.first
            ],
        }

    @action(
        "/entities",
        "ingest",
        body=js.record("entity", entity=_ENTITY, systemMetadata=js.ref("SystemMetadata")),
        refuses=(422,),
    )
    def ingest(self, request: RequestContext) -> None:
        """Write all aspects of one snapshot, or none of them."""
        writes = _read_snapshot(
            request.params["entity"]["value"], request.params.get("systemMetadata")
        )
        check_count(writes, "aspects", self._limits.proposals)
        self._store.write(writes)


def _key_of(urn: str, name: str) -> Mapping[str, str]:
    """Return the key aspect of a URN, of one that breaks a rule of its kind too."""
    parts, names = raw_parts(urn), ASPECTS[name].key
    if len(parts) != len(names) or not all(parts):
        return key_aspect(urn)[1]
    return dict(zip(names, parts, strict=True))


def _envelope(name: str, value: Any, made_ms: int, made_by: str) -> dict[str, Any]:
    created = {"time": made_ms, "actor": made_by}
    return {"name": name, "type": "VERSIONED", "version": 0, "value": value, "created": created}


def _read_snapshot(value: Mapping[str, Any], system_metadata: Any) -> list[Write]:
    """Return one write an aspect of a snapshot, `{"value": {"<record>": {"urn", "aspects"}}}`.

    Raises:
        InvalidProposalError: it is not understood; the sentence names the field.
    """
    names = list(value)
    if len(names) != 1 or not names[0].startswith(_SNAPSHOT):
        raise InvalidProposalError(
            f"entity.value: expected one snapshot, {_SNAPSHOT}<type>Snapshot"
        )
    urn, aspects = value[names[0]]["urn"], value[names[0]]["aspects"]
    try:
        entity_type = check_urn(urn)
    except InvalidUrnError as error:
        raise InvalidProposalError(f"urn: {error}") from error
    if not aspects:
        return [Write(urn, *key_aspect(urn))]
    return [
        make_write(
            urn,
            *_snapshot_aspect(entity_type, aspect, f"aspects[{at}]"),
            "UPSERT",
            headers={},
            system_metadata=system_metadata,
        )
        for at, aspect in enumerate(aspects)
    ]


def _snapshot_aspect(
    entity_type: str, aspect: Mapping[str, Any], where: str
) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the value of an aspect that comes under the name of its record."""
    if len(aspect) != 1:
        raise InvalidProposalError(f"{where}: expected one record, not {len(aspect)}")
    [(record_name, value)] = aspect.items()
    named = [name for name in aspects_of_record(record_name) if allows(entity_type, name)]
    # By convention the name of an aspect is that of its record, its first letter small.
    simple = record_name.rpartition(".")[2]
    name = named[0] if len(named) == 1 else f"{simple[:1].lower()}{simple[1:]}"
    return name, value
