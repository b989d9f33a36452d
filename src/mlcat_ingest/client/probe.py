"""The doctor's probe: an entity of its own that is written, read back and deleted for good."""

import secrets
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final

from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import AspectRejectedError, MlcatError, RetryableError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION, Aspect, Proposal
from mlcat_ingest.metadata.reserved import PROBE_KEY

ASPECT: Final = ML_MODEL_PROPERTIES

_WRITE: Final = "catalog permission: write"
_DELETE: Final = "catalog permission: delete"
_CONDITION: Final = "catalog conditional writes"


def probe_urn() -> str:
    """Return the URN of a probe that nobody else writes at the same time."""
    name = f"mlcat-ingest-check-{secrets.token_hex(8)}"
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name},PROD)"


def probe(client: CatalogClient) -> Iterator[Finding]:
    """Yield what writing to the catalog shows; the entity is deleted again, whatever comes.

    Cost: six requests.
    """
    urn = probe_urn()
    written = _written(client, urn, "1")
    if written is not None and not _may_be_heard(written):
        yield _failed(_WRITE, written)
        return
    # A request without an answer may have been heard all the same.
    try:
        yield Finding(_WRITE, "ok", f"wrote {urn}") if written is None else _failed(_WRITE, written)
        if written is None:
            yield _read_back(client, urn)
            yield _condition(client, urn)
    finally:
        gone = _removed(client, urn)
    yield gone


def _value(text: str) -> Aspect:
    return {
        "name": "mlcat-ingest check",
        "description": "A probe of `mlcat-ingest check --write`; it may be deleted.",
        "customProperties": {PROBE_KEY: text},
    }


def _written(
    client: CatalogClient, urn: str, text: str, headers: Mapping[str, str] | None = None
) -> MlcatError | None:
    """Write the probe; return what refused that, or kept it from being known."""
    try:
        refused = client.write([Proposal(urn, ASPECT, _value(text), headers=headers)])
    except MlcatError as error:
        return error
    return refused[0] if refused else None


def _may_be_heard(error: MlcatError) -> bool:
    """Return whether what failed so may have been written all the same."""
    if isinstance(error, AspectRejectedError):
        return error.status == HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, RetryableError)


def _read_back(client: CatalogClient, urn: str) -> Finding:
    what = "catalog read after write"
    try:
        stored = client.read_many([urn], [ASPECT]).get(urn, {}).get(ASPECT)
    except MlcatError as error:
        return _failed(what, error)
    found = {} if stored is None else stored.value.get("customProperties", {})
    if found.get(PROBE_KEY) == "1":
        return Finding(what, "ok", "what is acknowledged is there")
    return Finding(
        what,
        "failed",
        "the probe was acknowledged and is not there",
        "does something between here and the service write later on, or elsewhere?",
    )


def _condition(client: CatalogClient, urn: str) -> Finding:
    refused = _written(client, urn, "2", {IF_VERSION_MATCH: NO_SUCH_VERSION})
    if refused is not None:
        if isinstance(refused, AspectRejectedError) and not _may_be_heard(refused):
            return Finding(_CONDITION, "ok", f"{IF_VERSION_MATCH} is enforced")
        return _failed(_CONDITION, refused)
    return Finding(
        _CONDITION,
        "warning",
        f"{IF_VERSION_MATCH} is not enforced",
        "a run finds by the version history what was written in between, and repairs it",
    )


def _removed(client: CatalogClient, urn: str) -> Finding:
    try:
        client.delete_entity(urn)
    except MlcatError as error:
        return _hidden(client, urn, error)
    try:
        left = client.read_many([urn], [ASPECT, STATUS])
    except MlcatError as error:
        # To mark it as removed would make it anew.
        told = f"{urn} was deleted; whether it is gone cannot be read: {error.message}"
        return Finding(_DELETE, "warning", told, error.hint)
    if urn in left:
        return Finding(_DELETE, "failed", f"{urn} was deleted and is still there", _by_hand(urn))
    return Finding(_DELETE, "ok", f"the probe is deleted for good: {urn}")


def _hidden(client: CatalogClient, urn: str, cause: MlcatError) -> Finding:
    """Return what is left of a probe that could not be deleted: marked as removed, at best."""
    try:
        refused: list[AspectRejectedError] = client.write(
            [Proposal(urn, STATUS, {"removed": True})]
        )
    except MlcatError:
        refused = [AspectRejectedError(urn=urn, aspect=STATUS, status=0, reason="")]
    if refused:
        return Finding(_DELETE, "failed", f"{urn} stays: {cause.message}", _by_hand(urn))
    told = f"{urn} is marked as removed, not deleted: {cause.message}"
    return Finding(_DELETE, "warning", told, _by_hand(urn))


def _by_hand(urn: str) -> str:
    return f'delete it by hand: datahub delete --urn "{urn}" --hard'


def _failed(what: str, error: MlcatError) -> Finding:
    return Finding(what, "failed", error.message, error.hint)
