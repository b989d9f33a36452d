"""`/entities?action=ingest` and `batchIngest`: entities as snapshots, DataHub's older form.

Source: `emit_mce` of DataHub's Python client; `EntityResource.java`;
`com.linkedin.metadata.snapshot.*`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import check_count, json_list, json_object, json_type
from mlcat_ingest.catalog.web.rest.endpoint import (
    INTERFACE,
    OBJECT,
    Endpoint,
    action,
    array,
    record,
    ref,
)
from mlcat_ingest.catalog.web.rest.proposals import aspects_of_record
from mlcat_ingest.catalog.web.rest.writes import make_write, placed
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import allows, key_aspect

_SNAPSHOT: Final = "com.linkedin.metadata.snapshot."


class Snapshots:
    """The endpoints that write snapshots."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Write to `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        entity, metadata = ref("Snapshot"), ref("SystemMetadata")
        return (
            action(
                "/entities",
                "ingest",
                self.ingest,
                client="SDK DataHubRestEmitter.emit_mce",
                body=record("entity", entity=entity, systemMetadata=metadata),
                returns=OBJECT,
                refuses=(422,),
            ),
            action(
                "/entities",
                "batchIngest",
                self.batch_ingest,
                client=INTERFACE,
                body=record("entities", entities=array(entity), systemMetadata=array(metadata)),
                returns=OBJECT,
                refuses=(422,),
            ),
        )

    def ingest(self, call: Call) -> dict[str, Any]:
        """Write all aspects of one snapshot, or none of them."""
        params = json_object(call.json())
        if params.get("entity") is None:
            raise BadRequestError("entity: the parameter is missing")
        writes = read_snapshot(params["entity"], params.get("systemMetadata"))
        check_count(writes, "aspects", self._limits.proposals)
        self._store.write(writes)
        return {}

    def batch_ingest(self, call: Call) -> dict[str, Any]:
        """Write all aspects of many snapshots, or none of them."""
        params = json_object(call.json())
        if params.get("entities") is None:
            raise BadRequestError("entities: the parameter is missing")
        entities = json_list(params["entities"], "entities", self._limits.proposals)
        metadata = json_list(params.get("systemMetadata") or [], "systemMetadata", len(entities))
        writes: list[Write] = []
        positions: list[int] = []
        for at, entity in enumerate(entities):
            with placed("entities", [at]):
                found = read_snapshot(entity, metadata[at] if at < len(metadata) else None)
            writes += found
            positions += [at] * len(found)
        check_count(writes, "aspects", self._limits.proposals)
        with placed("entities", positions):
            self._store.write(writes)
        return {}


def read_snapshot(entity: Any, system_metadata: Any) -> list[Write]:
    """Return one write an aspect of a snapshot, `{"value": {"<record>": {"urn", "aspects"}}}`.

    Raises:
        InvalidProposalError: it is not understood; the sentence names the field.
    """
    value = _object(_object(entity, "entity").get("value"), "entity.value")
    names = list(value)
    if len(names) != 1 or not names[0].startswith(_SNAPSHOT):
        raise InvalidProposalError(
            f"entity.value: expected one snapshot, {_SNAPSHOT}<type>Snapshot"
        )
    snapshot = _object(value[names[0]], f"entity.value.{names[0]}")
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
            *_aspect(entity_type, aspect, f"aspects[{at}]"),
            "UPSERT",
            system_metadata=system_metadata,
        )
        for at, aspect in enumerate(aspects)
    ]


def _aspect(entity_type: str, aspect: Any, where: str) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the value of an aspect that comes under the name of its record."""
    shown = _object(aspect, where)
    if len(shown) != 1:
        raise InvalidProposalError(f"{where}: expected one record, not {len(shown)}")
    [(record_name, value)] = shown.items()
    named = [name for name in aspects_of_record(record_name) if allows(entity_type, name)]
    # By convention the name of an aspect is that of its record, its first letter small.
    simple = record_name.rpartition(".")[2]
    name = named[0] if len(named) == 1 else f"{simple[:1].lower()}{simple[1:]}"
    return name, _object(value, f"{where}.{record_name}")


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidProposalError(f"{where}: expected an object, not {json_type(value)}")
    return value
