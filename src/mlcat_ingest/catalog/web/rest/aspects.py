"""`/aspects`: writing proposals, reading one aspect, and the events of timeseries aspects."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_VALUES
from mlcat_ingest.catalog.schema.values import TimeseriesEvent
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.timeseries import Span, read_events
from mlcat_ingest.catalog.web.http import (
    RequestContext,
    flag,
    integer,
    json_list,
    json_object,
    optional,
    required_text,
    texts,
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
    Schema,
    action,
    array,
    record,
    ref,
)
from mlcat_ingest.catalog.web.rest.proposals import (
    ManyProposals,
    OneProposal,
    check_parameters,
    read_proposal,
    unescape_envelope,
)
from mlcat_ingest.metadata.codec import dumps, embedded
from mlcat_ingest.metadata.registry import record_name

_ASYNC: Final[Mapping[str, Schema]] = {"async": {"enum": ["true", "false"]}}


_WRITTEN: Final = "success"

_Alternatives: TypeAlias = Sequence[Mapping[str, Collection[str]]]
"""Fields with their values, all of which an event has; one of the alternatives has to hold."""


class Aspects(Resource):
    """The endpoints of `/aspects`."""

    @action(
        "/aspects",
        "ingestProposal",
        client=CONNECTOR,
        body=record("proposal", proposal=ref("Proposal"), **_ASYNC),
        returns=TEXT,
        refuses=(422,),
    )
    def ingest_proposal(self, request: RequestContext) -> str:
        """Write one proposal; it is stored when this replies, with any value of `async`."""
        params = _parameters(request, "ingestProposal", "proposal", OneProposal)
        self._store.write([read_proposal(unescape_envelope(params["proposal"]))])
        return _WRITTEN

    @action(
        "/aspects",
        "ingestProposalBatch",
        client=CONNECTOR,
        body=record("proposals", proposals=array(ref("Proposal")), **_ASYNC),
        returns=TEXT,
        refuses=(422,),
    )
    def ingest_proposal_batch(self, request: RequestContext) -> str:
        """Write all proposals of a batch, in their order, or none of them."""
        params = _parameters(request, "ingestProposalBatch", "proposals", ManyProposals)
        proposals = json_list(params["proposals"], "proposals", self._limits.proposals)
        self._store.write([read_proposal(proposal) for proposal in proposals])
        return _WRITTEN

    @Endpoint(
        "GET",
        "/aspects/{urn}",
        {200: record("version", "aspect", version=WHOLE, aspect=OBJECT)},
        (404,),
        (
            Parameter("urn", "URN of the entity.", place="path"),
            Parameter("aspect", "Name of the aspect.", required=True),
            Parameter(
                "version",
                "0 for the latest version, 1 for the oldest of the earlier ones, -1 for the last.",
                {"type": "integer"},
                required=True,
            ),
        ),
        client=CONNECTOR,
    )
    def get(self, request: RequestContext) -> dict[str, Any]:
        """Read one aspect, its latest version or an archived one, keyed by its record's name.

        The latest version is only at 0: its own number is not used until the next one archives it.
        """
        urn = request.urn_after("/aspects/")
        aspect = required_text(request.query, "aspect")
        version = integer(request.query, "version")
        latest = self._store.get_many([urn], [aspect]).get(urn, {}).get(aspect)
        if latest is not None and version < 0:
            version += latest.version
        stored = latest if version == 0 else None
        if version > 0 and (latest is None or version < latest.version):
            stored = self._store.get_version(urn, aspect, version)
        if stored is None:
            which = f"version {version} of {aspect}" if version else aspect
            raise NotFoundError(f"{urn} has no {which}")
        return {"version": version, "aspect": {record_name_of(aspect): embedded(stored.text)}}

    @action(
        "/aspects",
        "getTimeseriesAspectValues",
        client="SDK DataHubGraph.get_latest_timeseries_value",
        reads=True,
        body=record(
            *("urn", "aspect"),
            urn=URN,
            entity=TEXT,
            aspect=TEXT,
            limit=WHOLE,
            latestValue=FLAG,
            filter=ref("Filter"),
        ),
        returns=record("values", values=array(record("aspect", aspect=OBJECT))),
    )
    def get_values(self, request: RequestContext) -> dict[str, Any]:
        """Read the events of a timeseries aspect of one entity, the newest first."""
        params = json_object(request.json())
        urn, aspect = required_text(params, "urn"), required_text(params, "aspect")
        entity_type = check_urn(urn)
        limit = 1 if flag(params, "latestValue") else whole(params, "limit", 100)
        limit = min(limit, self._limits.page_size)
        wanted = _read_filter(params.get("filter"))
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
            events = self._store.read(partial(read_events, urn=urn, span=span, limit=read))
            matching = [event for event in events if _matches(event.value, wanted)]
            # A filter may leave too few: twice as many are read until there are enough.
            if len(matching) >= limit or len(events) < read or read >= self._limits.page_size:
                return matching[:limit]
            read = min(2 * read, self._limits.page_size)


def _parameters(request: RequestContext, method: str, name: str, record: type) -> Mapping[str, Any]:
    """Return the parameters of a write; the one of that `name` has to be there."""
    params = json_object(request.json())
    if name not in params:
        raise BadRequestError(f"Parameter '{name}' is required")
    check_parameters(method, record, params)
    return params


def record_name_of(aspect: str) -> str:
    """Return the full record name of an aspect, a made-up one for an aspect we do not know."""
    known = record_name(aspect)
    return known or f"com.linkedin.metadata.aspect.{aspect[:1].upper()}{aspect[1:]}"


def _read_filter(value: Any) -> _Alternatives:
    """Return the alternatives of `{"or": [{"and": [{"field", "values"}]}]}`; none without one.

    Raises:
        BadRequestError: it is not understood, or compares by anything but equality.
    """
    alternatives = json_object(value or {}, "filter").get("or") or []
    read = []
    for at, item in enumerate(json_list(alternatives, "filter.or", SEARCH_CRITERIA)):
        where = f"filter.or[{at}]"
        criteria = json_list(json_object(item, where).get("and") or [], where, SEARCH_CRITERIA)
        read.append(dict(_equality(criterion, f"{where}.and") for criterion in criteria))
    return read


def _equality(value: Any, where: str) -> tuple[str, Collection[str]]:
    criterion = json_object(value, where)
    condition = optional(criterion, "condition") or "EQUAL"
    if condition != "EQUAL" or flag(criterion, "negated"):
        raise BadRequestError(f"{where}: events can be compared by EQUAL only")
    values = texts(criterion, SEARCH_VALUES, "values")
    if values is None:
        # As clients before 1.0 name it.
        values = [required_text(criterion, "value")]
    return required_text(criterion, "field"), values


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
