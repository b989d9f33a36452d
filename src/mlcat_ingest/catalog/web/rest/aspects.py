"""`/aspects`: writing proposals, and reading one aspect of one entity."""

from collections.abc import Sequence
from typing import Any

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import json_list, json_object, required, whole
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    OBJECT,
    TEXT,
    WHOLE,
    Endpoint,
    Parameter,
    action,
    array,
    record,
    ref,
    value_of,
)
from mlcat_ingest.catalog.web.rest.escapes import unescape_envelope
from mlcat_ingest.catalog.web.rest.proposals import read_proposal
from mlcat_ingest.catalog.web.rest.writes import placed
from mlcat_ingest.metadata.registry import record_name


class Aspects:
    """The endpoints of `/aspects` that write proposals and read single aspects."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read and write `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        asynchronous = {"enum": ["true", "false", True, False, None]}
        single = record("proposal", proposal=ref("Proposal"), **{"async": asynchronous})
        batch = record("proposals", proposals=array(ref("Proposal")), **{"async": asynchronous})
        return (
            action(
                "/aspects",
                "ingestProposal",
                self.ingest_proposal,
                client=CONNECTOR,
                body=single,
                returns=value_of(TEXT),
                refuses=(422,),
            ),
            action(
                "/aspects",
                "ingestProposalBatch",
                self.ingest_proposal_batch,
                client=CONNECTOR,
                body=batch,
                returns=value_of(TEXT),
                refuses=(422,),
            ),
            Endpoint(
                "GET",
                "/aspects/{urn}",
                self.get,
                {200: record("version", "aspect", version=WHOLE, aspect=OBJECT)},
                (404,),
                (
                    Parameter("urn", "The entity.", place="path"),
                    Parameter("aspect", "The name of the aspect.", required=True),
                    Parameter("version", "0 for the latest, 1 for the oldest.", WHOLE),
                ),
                client=CONNECTOR,
            ),
        )

    def ingest_proposal(self, call: Call) -> dict[str, Any]:
        """Write one proposal; the reply means that it is stored, whatever `async` says."""
        proposal = json_object(call.json()).get("proposal")
        if proposal is None:
            raise BadRequestError("proposal: the parameter is missing")
        written = self._store.write([read_proposal(unescape_envelope(proposal))])
        return {"value": written[0].urn}

    def ingest_proposal_batch(self, call: Call) -> dict[str, Any]:
        """Write all proposals of a batch, in their order, or none of them."""
        params = json_object(call.json())
        if "proposals" not in params:
            raise BadRequestError("proposals: the parameter is missing")
        proposals = json_list(params["proposals"], "proposals", self._limits.proposals)
        with placed("proposals"):
            self._store.write([read_proposal(p, at) for at, p in enumerate(proposals)])
        return {"value": "success"}

    def get(self, call: Call) -> dict[str, Any]:
        """Read one aspect, its latest version or an archived one, keyed by its record's name."""
        urn = call.urn_after("/aspects/")
        aspect = required(call.query, "aspect")
        version = whole(call.query, "version")
        check_urn(urn)
        found = self._store.get_version(urn, aspect, version)
        if found is None:
            which = f"version {version} of {aspect}" if version else aspect
            raise NotFoundError(f"{urn} has no {which}")
        return {"version": version, "aspect": {record_name_of(aspect): found.value}}


def record_name_of(aspect: str) -> str:
    """Return the full record name of an aspect, a made-up one for an aspect we do not know."""
    known = record_name(aspect)
    return known or f"com.linkedin.metadata.aspect.{aspect[:1].upper()}{aspect[1:]}"
