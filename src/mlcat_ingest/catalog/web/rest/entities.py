"""`/entitiesV2` and `/entities`: reading and deleting an entity, and writing snapshots.

Snapshots are an older form of an entity: `datahub ingest` of Feast and SageMaker sends them
where its sink is in the mode SYNC or ASYNC.
Source: `emit_mce` of DataHub's Python client; `EntityResource.java`;
`com.linkedin.metadata.snapshot.*`.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError, NotFoundError
from mlcat_ingest.catalog.schema.values import SYSTEM_ACTOR, AspectVersion, Write
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.references import delete_references, find_references
from mlcat_ingest.catalog.store.rows import now_ms
from mlcat_ingest.catalog.store.timeseries import Span, delete_events
from mlcat_ingest.catalog.web.http import (
    RequestContext,
    check_count,
    flag,
    json_object,
    json_type,
    optional,
    query_list,
    required_text,
    whole,
)
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    OBJECT,
    TEXT,
    URN,
    WHOLE,
    Endpoint,
    Parameter,
    Resource,
    action,
    array,
    record,
    ref,
)
from mlcat_ingest.catalog.web.rest.proposals import (
    aspects_of_record,
    expect_object,
    make_write,
)
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.codec import embedded
from mlcat_ingest.metadata.registry import (
    ASPECTS,
    ENTITY_TYPES,
    allows,
    key_aspect,
    key_aspect_name,
)
from mlcat_ingest.metadata.shapes import fields
from mlcat_ingest.metadata.urn import check, entity_type_of, raw_parts

_DELETION: Final = record(
    "urn", urn=URN, aspectName=TEXT, startTimeMillis=WHOLE, endTimeMillis=WHOLE
)
_DELETED: Final = record(
    *("urn", "rows", "timeseriesRows"), urn=URN, rows=WHOLE, timeseriesRows=WHOLE
)


class Entities(Resource):
    """The endpoints that read and delete whole entities, and write snapshots."""

    @Endpoint(
        "GET",
        "/entitiesV2/{urn}",
        {200: record("urn", "aspects", urn=URN)},
        parameters=(
            Parameter("urn", "URN of the entity.", place="path", required=True),
            Parameter("aspects", "Names of the aspects to return: `List(a,b)`."),
        ),
        client=CONNECTOR,
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
        stored = self._store.get_many([urn], query_list(request.query, "aspects") or None)
        aspects = {name: _envelope(name, aspect) for name, aspect in stored.get(urn, {}).items()}
        key = key_aspect_name(entity_type)
        if key not in aspects:
            made_up = {"time": now_ms(), "actor": SYSTEM_ACTOR}
            aspects[key] = _bare_envelope(key, _key_of(urn, key), made_up)
        return {"urn": urn, "entityName": entity_type, "aspects": aspects}

    @action("/entities", "delete", client=CONNECTOR, body=_DELETION, returns=_DELETED)
    def delete(self, request: RequestContext) -> dict[str, Any]:
        """Delete an entity with all it has, or the events of one of its timeseries aspects.

        An entity that does not exist counts no rows.
        """
        params = json_object(request.json())
        urn = required_text(params, "urn")
        check_urn(urn)
        aspect = optional(params, "aspectName")
        if aspect is not None:
            span = Span(aspect, *_time_range(params))
            events = self._store.change(lambda connection: delete_events(connection, urn, span))
            return {"urn": urn, "rows": 0, "timeseriesRows": events}
        gone = self._store.delete(urn)
        return {"urn": urn, "rows": gone.rows, "timeseriesRows": gone.timeseries_rows}

    @action(
        "/entities",
        "deleteReferences",
        client="SDK DataHubGraph.delete_references_to_urn",
        body=record("urn", urn=URN, dryRun=FLAG),
        returns=record("total", total=WHOLE, relatedAspects=array(OBJECT)),
    )
    def delete_references(self, request: RequestContext) -> dict[str, Any]:
        """Remove an entity from every aspect that names it, or only list these aspects."""
        params = json_object(request.json())
        urn = required_text(params, "urn")
        check_urn(urn)
        if flag(params, "dryRun"):
            references = self._store.read(lambda connection: find_references(connection, urn))
        else:
            references = delete_references(self._store, urn)
        return {
            "total": references.total,
            "relatedAspects": [
                {
                    "entity": reference.urn,
                    "relationship": reference.relationship,
                    "aspect": reference.aspect,
                }
                for reference in references.first
            ],
        }

    @action(
        "/entities",
        "ingest",
        client="SDK DataHubRestEmitter.emit_mce",
        body=record("entity", entity=ref("Snapshot"), systemMetadata=ref("SystemMetadata")),
        refuses=(422,),
    )
    def ingest(self, request: RequestContext) -> None:
        """Write all aspects of one snapshot, or none of them."""
        params = json_object(request.json())
        if params.get("entity") is None:
            raise BadRequestError("entity: the parameter is missing")
        writes = read_snapshot(params["entity"], params.get("systemMetadata"))
        check_count(writes, "aspects", self._limits.proposals)
        self._store.write(writes)


def _time_range(params: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the first and the last moment of `params`, in milliseconds; None is without bound.

    Raises:
        BadRequestError: one of them is no whole number.
    """
    first, last = (
        None if params.get(name) is None else whole(params, name)
        for name in ("startTimeMillis", "endTimeMillis")
    )
    return first, last


def _key_of(urn: str, name: str) -> Mapping[str, str]:
    """Return the key aspect of a URN, of one that breaks a rule of its kind too."""
    with suppress(InvalidUrnError):
        return key_aspect(urn)[1]
    parts = raw_parts(urn)
    names = fields(ASPECTS[name].type) if name in ASPECTS else ()
    if len(parts) != len(names) or not all(parts):
        check(urn)
    return dict(zip(names, parts, strict=True))


def _envelope(name: str, stored: AspectVersion) -> dict[str, Any]:
    made = {"time": stored.modified_ms, "actor": stored.modified_by}
    envelope = _bare_envelope(name, embedded(stored.text), made)
    return {**envelope, "systemMetadata": stored.wire_system_metadata()}


def _bare_envelope(name: str, value: Any, created: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": "VERSIONED", "version": 0, "value": value, "created": created}


_SNAPSHOT: Final = "com.linkedin.metadata.snapshot."


def read_snapshot(entity: Any, system_metadata: Any) -> list[Write]:
    """Return one write an aspect of a snapshot, `{"value": {"<record>": {"urn", "aspects"}}}`.

    Raises:
        InvalidProposalError: it is not understood; the sentence names the field.
    """
    value = expect_object(expect_object(entity, "entity").get("value"), "entity.value")
    names = list(value)
    if len(names) != 1 or not names[0].startswith(_SNAPSHOT):
        raise InvalidProposalError(
            f"entity.value: expected one snapshot, {_SNAPSHOT}<type>Snapshot"
        )
    snapshot = expect_object(value[names[0]], f"entity.value.{names[0]}")
    urn, aspects = snapshot.get("urn"), snapshot.get("aspects")
    if not isinstance(urn, str):
        raise InvalidProposalError(f"urn: expected a string, not {json_type(urn)}")
    if not isinstance(aspects, list):
        raise InvalidProposalError(f"aspects: expected a list, not {json_type(aspects)}")
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
            system_metadata=system_metadata,
        )
        for at, aspect in enumerate(aspects)
    ]


def _snapshot_aspect(entity_type: str, aspect: Any, where: str) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the value of an aspect that comes under the name of its record."""
    shown = expect_object(aspect, where)
    if len(shown) != 1:
        raise InvalidProposalError(f"{where}: expected one record, not {len(shown)}")
    [(record_name, value)] = shown.items()
    named = [name for name in aspects_of_record(record_name) if allows(entity_type, name)]
    # By convention the name of an aspect is that of its record, its first letter small.
    simple = record_name.rpartition(".")[2]
    name = named[0] if len(named) == 1 else f"{simple[:1].lower()}{simple[1:]}"
    return name, expect_object(value, f"{where}.{record_name}")
