"""What the doctor says about a catalog service: reached, let in, and permitted to do what."""

from collections.abc import Iterator
from typing import Final, Literal

from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.evaluate import NO_RESULTS
from mlcat_ingest.client.probe import probe
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.net.certificates import Trust
from mlcat_ingest.net.reachability import Address, clock, reach

_PROBE: Final = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,mlcat-ingest-check,PROD)"
"""An entity that nobody has: reading and evaluating it shows what is permitted."""

_NOBODY: Final = "mlcat-ingest:check:nobody"
"""A source that nobody is, to be looked for."""


def findings(client: CatalogClient, trust: Trust, *, write: bool) -> Iterator[Finding]:
    """Yield the findings about a service; nothing is written without `write`.

    Cost: at most five requests, six more with `write`.
    """
    try:
        server = client.server
    except MlcatError as error:
        yield _failed("catalog service", error)
        return
    if not (yield from reach(Address("catalog", server, trust))):
        return
    try:
        told = client.connect()
    except MlcatError as error:
        yield _failed("catalog service", error)
        return
    yield Finding("catalog service", "ok", f"{told.describe()} at {server}")
    yield clock("catalog", client.clock_skew_s)
    if told.datahub and told.datahub_version is None:
        yield Finding("catalog version", "warning", "this DataHub does not tell its version")
    if not told.is_supported:
        hint = "upgrade DataHub: v1.5 or later is better than v1.0, v1.7 is best"
        yield Finding("catalog version", "failed", told.unsupported(), hint)
    yield from _reading(client)
    yield from _searching(client)
    yield from _evaluating(client)
    if write:
        yield from probe(client)


def _reading(client: CatalogClient) -> Iterator[Finding]:
    what = "catalog permission: read aspects"
    try:
        client.read_many([_PROBE], [STATUS])
    except MlcatError as error:
        yield _failed(what, error)
        return
    yield Finding(what, "ok", client.credentials.token_origin())
    if client.reads_in_batches:
        yield Finding("catalog batch read", "ok", f"{MAX_REQUEST_ITEMS} entities a request")
    else:
        yield Finding(
            "catalog batch read",
            "warning",
            "one request an entity: the service has no batch read",
            "a newer DataHub answers /openapi/v3/entity/<type>/batchGet",
        )


def _searching(client: CatalogClient) -> Iterator[Finding]:
    what = "catalog permission: search"
    try:
        client.search.owned("mlModel", _NOBODY)
    except MlcatError as error:
        hint = error.hint or "what a recipe owns is then told by its state alone"
        yield Finding(what, "warning", error.message, hint)
    else:
        yield Finding(what, "ok", "GraphQL answers")


def _evaluating(client: CatalogClient) -> Iterator[Finding]:
    what = "catalog permission: evaluate metadata tests"
    try:
        told = client.evaluator.evaluate_batch([_PROBE])
    except MlcatError as error:
        yield _failed(what, error, "warning")
        return
    # An entity that nobody has has no results either.
    if told.not_evaluated in {None, NO_RESULTS}:
        yield Finding(what, "ok", "the service evaluates")
        return
    yield Finding(
        what,
        "warning",
        str(told.not_evaluated),
        "a run still writes everything; DataHub evaluates in its Cloud edition, for users "
        "that may manage tests",
    )


def _failed(
    what: str, error: MlcatError, outcome: Literal["warning", "failed"] = "failed"
) -> Finding:
    return Finding(what, outcome, error.message, error.hint)
