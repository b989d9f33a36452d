"""The doctor's checks of a catalog service: whether it is reached and permits what a run needs.

A test entity can be written, read back and deleted for good.
"""

import secrets
import time
from collections.abc import Generator, Iterator, Mapping
from http import HTTPStatus
from typing import Final, Literal

from mlcat_ingest.client.rest.capabilities import Capabilities
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.client.rest.evaluate import NO_RESULTS
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import AspectRejectedError, MlcatError, RetryableError
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    GLOBAL_TAGS,
    INSTITUTIONAL_MEMORY,
    ML_MODEL_PROPERTIES,
    OWNERSHIP,
    STATUS,
    SUB_TYPES,
    TEST_INFO,
    TEST_RESULTS,
)
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION, Proposal
from mlcat_ingest.metadata.reserved import CHECK_KEY, MAX_REQUEST_ITEMS
from mlcat_ingest.net.http import clock

_NAME: Final = "mlcat-ingest-check"
_NO_ENTITY: Final = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{_NAME},PROD)"
"""An entity that does not exist: reading and evaluating it shows the permissions."""

_NO_TEST: Final = f"urn:li:test:{_NAME}"
"""A metadata test that does not exist."""

_NO_SOURCE: Final = "mlcat-ingest:check:nobody"
"""A source that does not exist, to search for."""


def check_service(client: CatalogClient, *, write: bool) -> Iterator[Finding]:
    """Yield what the service answers to each kind of request; see `RestCatalog.check`."""
    try:
        service = client.connect()
    except MlcatError as error:
        yield _finding_of("catalog service", error)
        return
    yield Finding("catalog service", "ok", f"{service.describe()} at {client.server}")
    if client.clock_skew_s is not None:  # DataHub's server sends no date
        yield clock("catalog", client.clock_skew_s)
    yield from _version_findings(service)
    yield from _read_findings(client)
    yield from _search_findings(client)
    evaluates = yield from _evaluation_findings(client)
    if write:
        yield from check_writes(client, results=not evaluates)
    else:
        yield Finding(_WRITE, "ok", "not tried: --write writes a test entity, and deletes it")


def _version_findings(service: Capabilities) -> Iterator[Finding]:
    what = "catalog version"
    if service.release is None:
        if service.datahub:
            yield Finding(
                what,
                "warning",
                f"{service.describe()} does not report its release",
                "set `server_version` of the sink",
            )
    elif not service.is_supported:
        hint = "upgrade DataHub to v1.5 or later, best v1.7"
        yield Finding(what, "failed", service.upgrade_message(), hint)
    elif service.dropped:
        hint = (
            "upgrade DataHub to v1.1 or later; a run that writes these aspects exits with status 4"
        )
        yield Finding(what, "warning", service.behaviour, hint)
    else:
        yield Finding(what, "ok", service.behaviour)


def _read_findings(client: CatalogClient) -> Iterator[Finding]:
    what = "catalog permission: read aspects"
    try:
        client.read_many([_NO_ENTITY], [STATUS])
    except MlcatError as error:
        yield _finding_of(what, error)
        return
    yield Finding(what, "ok", client.credentials.token_origin())
    if client.reads_in_batches:
        yield Finding("catalog batch read", "ok", f"{MAX_REQUEST_ITEMS} entities a request")
    else:
        yield Finding(
            "catalog batch read",
            "warning",
            "one request per entity: the service has no batch read",
            "upgrade DataHub: newer releases have /openapi/v3/entity/<type>/batchGet",
        )


def _search_findings(client: CatalogClient) -> Iterator[Finding]:
    what = "catalog permission: search"
    try:
        client.search.entities_of_source("mlModel", _NO_SOURCE)
    except MlcatError as error:
        hint = error.hint or "only the state of a recipe then lists its entities"
        yield Finding(what, "warning", error.message, hint)
    else:
        yield Finding(what, "ok", "GraphQL answers")


def _evaluation_findings(client: CatalogClient) -> Generator[Finding, None, bool]:
    """Yield who can evaluate metadata tests; return False where only the client can."""
    what = "catalog permission: evaluate metadata tests"
    try:
        service = client.evaluator.evaluate_batch([_NO_ENTITY])
    except MlcatError as error:
        yield _finding_of(what, error, "warning")
        return True
    # An entity that does not exist has no results either.
    if service.not_evaluated in {None, NO_RESULTS}:
        yield Finding(what, "ok", "the service evaluates")
    elif service.lacks_call:
        yield Finding(what, "ok", f"a run evaluates itself: {service.not_evaluated}")
        yield _readable_tests(client)
        return False
    else:
        hint = (
            "a run still writes everything; for evaluation, grant the user the privilege to "
            "manage tests"
        )
        yield Finding(what, "warning", str(service.not_evaluated), hint)
    return True


def _readable_tests(client: CatalogClient) -> Finding:
    """Return whether the tests can be listed and read, which a run that evaluates has to."""
    what = "catalog permission: read metadata tests"
    try:
        page = next(client.search.metadata_tests(), [])
        client.read_many(page[:1] or [_NO_TEST], [TEST_INFO])
    except MlcatError as error:
        return _finding_of(what, error, "warning")
    return Finding(what, "ok", "some exist" if page else "none yet")


def _finding_of(
    what: str, error: MlcatError, outcome: Literal["warning", "failed"] = "failed"
) -> Finding:
    return Finding(what, outcome, error.message, error.hint)


SLOW_ASPECT_MS: Final = 20
"""What a service takes for an aspect at most, unless something slows it down."""

_EMPTY: Final[Mapping[str, Mapping[str, object]]] = {
    STATUS: {"removed": False},
    GLOBAL_TAGS: {"tags": []},
    OWNERSHIP: {"owners": []},
    INSTITUTIONAL_MEMORY: {"elements": []},
    BROWSE_PATHS_V2: {"path": []},
    SUB_TYPES: {"typeNames": []},
}
"""Aspects of the test entity that say nothing."""

_WRITE: Final = "catalog permission: write"
_CONDITION: Final = "catalog conditional writes"
_RESULTS: Final = "catalog permission: write test results"
_DELETION: Final = "catalog permission: delete"


def check_writes(client: CatalogClient, *, results: bool = False) -> Iterator[Finding]:
    """Yield what writing to the catalog shows; the entity is deleted again, whatever comes.

    With `results` also whether results of metadata tests may be written.

    Cost: ten requests, one more with `results`.
    """
    urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{_NAME}-{secrets.token_hex(8)},PROD)"
    written = _write_properties(client, urn, "1")
    if written is not None and not _may_be_written(written):
        yield _finding_of(_WRITE, written)
        return
    # A request without an answer may have been heard all the same.
    try:
        if written is not None:
            yield _finding_of(_WRITE, written)
        else:
            yield Finding(_WRITE, "ok", f"wrote {urn}")
            yield _read_back(client, urn)
            yield _conditional_write(client, urn)
            yield _write_time(client, urn)
            if results:
                yield _write_results(client, urn)
    finally:
        gone = _delete_entity(client, urn)
    yield gone


def _refused(client: CatalogClient, *proposals: Proposal) -> MlcatError | None:
    """Write proposals of the test entity; return what refused one, or kept it from being known."""
    try:
        refused = client.write(proposals)
    except MlcatError as error:
        return error
    return refused[0] if refused else None


def _write_properties(
    client: CatalogClient, urn: str, text: str, headers: Mapping[str, str] | None = None
) -> MlcatError | None:
    properties = {
        "name": "mlcat-ingest check",
        "description": "A test entity of `mlcat-ingest check --write`; it can be deleted.",
        "customProperties": {CHECK_KEY: text},
    }
    return _refused(client, Proposal(urn, ML_MODEL_PROPERTIES, properties, headers=headers))


def _may_be_written(error: MlcatError) -> bool:
    """Return whether what failed so may have been written all the same."""
    if isinstance(error, AspectRejectedError):
        return error.status == HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, RetryableError)


def _read_back(client: CatalogClient, urn: str) -> Finding:
    what = "catalog read after write"
    try:
        entity = client.read_many([urn], [ML_MODEL_PROPERTIES]).get(urn, {})
    except MlcatError as error:
        return _finding_of(what, error)
    stored = entity.get(ML_MODEL_PROPERTIES)
    properties = {} if stored is None else stored.value.get("customProperties", {})
    if properties.get(CHECK_KEY) == "1":
        return Finding(what, "ok", "acknowledged writes are readable")
    return Finding(
        what,
        "failed",
        "the test entity was acknowledged but is missing",
        "check whether a proxy or queue delays or redirects writes",
    )


def _conditional_write(client: CatalogClient, urn: str) -> Finding:
    refused = _write_properties(client, urn, "2", {IF_VERSION_MATCH: NO_SUCH_VERSION})
    if refused is not None:
        if isinstance(refused, AspectRejectedError) and not _may_be_written(refused):
            return Finding(_CONDITION, "ok", f"{IF_VERSION_MATCH} is enforced")
        return _finding_of(_CONDITION, refused)
    return Finding(
        _CONDITION,
        "warning",
        f"{IF_VERSION_MATCH} is not enforced",
        "a run finds concurrent writes in the version history and repairs them",
    )


def _write_time(client: CatalogClient, urn: str) -> Finding:
    """Return how long the service takes for an aspect, without what it takes for a request.

    Cost: four requests.
    """
    what = "catalog write time"
    proposals = [Proposal(urn, name, value) for name, value in _EMPTY.items()]
    took_s = []
    for written in (proposals[:1], proposals, proposals[:1], proposals):
        started_s = time.perf_counter()
        refused = _refused(client, *written)
        if refused is not None:
            return _finding_of(what, refused, "warning")
        took_s.append(time.perf_counter() - started_s)
    difference_s = min(took_s[1::2]) - min(took_s[::2])
    aspect_ms = max(difference_s, 0) / (len(proposals) - 1) * 1000
    time_of_one = f"{aspect_ms:.0f} ms an aspect"
    if aspect_ms <= SLOW_ASPECT_MS:
        return Finding(what, "ok", time_of_one)
    hint = (
        "DataHub's own debug log takes most of that as it is shipped: set "
        "LOGGING_LEVEL_COM_LINKEDIN=INFO in the environment of GMS; see docs/how-to/fast-datahub.md"
    )
    return Finding(what, "warning", f"{time_of_one}, more than {SLOW_ASPECT_MS}", hint)


def _write_results(client: CatalogClient, urn: str) -> Finding:
    refused = _refused(client, Proposal(urn, TEST_RESULTS, {"passing": [], "failing": []}))
    if refused is not None:
        return _finding_of(_RESULTS, refused, "warning")
    return Finding(_RESULTS, "ok", "a run can store its results")


def _delete_entity(client: CatalogClient, urn: str) -> Finding:
    """Delete the test entity for good, or mark it as removed; return what came of it.

    Cost: two requests.
    """
    try:
        client.delete_entity(urn)
    except MlcatError as error:
        return _soft_delete(client, urn, error)
    try:
        left = client.read_many([urn], [ML_MODEL_PROPERTIES, STATUS])
    except MlcatError as error:
        # To mark it as removed would make it anew.
        message = f"{urn} was deleted; reading it back failed: {error.message}"
        return Finding(_DELETION, "warning", message, error.hint)
    if urn in left:
        return Finding(_DELETION, "failed", f"{urn} was deleted and still exists", _by_hand(urn))
    return Finding(_DELETION, "ok", f"the test entity is hard-deleted: {urn}")


def _soft_delete(client: CatalogClient, urn: str, cause: MlcatError) -> Finding:
    """Return what is left of an entity that could not be deleted: marked as removed, at best."""
    if _refused(client, Proposal(urn, STATUS, {"removed": True})) is not None:
        return Finding(_DELETION, "failed", f"{urn} remains: {cause.message}", _by_hand(urn))
    message = f"{urn} is soft-deleted, not hard-deleted: {cause.message}"
    return Finding(_DELETION, "warning", message, _by_hand(urn))


def _by_hand(urn: str) -> str:
    return f'delete it by hand: datahub delete --urn "{urn}" --hard'
