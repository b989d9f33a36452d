"""Entities that a check of a service writes: made, looked for, and deleted again."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.connection import Capabilities, Connection, read_capabilities
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import AspectRejectedError, CatalogRequestError, MlcatError
from mlcat_ingest.metadata.aspects.common import STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.registry import ENTITIES, key_aspect_name
from mlcat_ingest.metadata.reserved import PROBE_KEY, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.net.http import Reply

PROBE_ASPECT: Final = ML_MODEL_PROPERTIES
PROBE_DELETION: Final = "catalog permission: delete"

INDEX_PATIENCE_S: Final = 10.0
"""How long the search index may take to show what was written."""

_PAUSE_S: Final = 0.25
_FAILURES: Final = 3
"""Deletions that failed in a row, after which the next one is not tried."""

_NAME: Final = re.compile(r"mlcat-ingest-check-[0-9a-f]{16}")

log = logging.getLogger(__name__)


def probe_name(tail: str = "") -> str:
    """Return a name that nobody else gives a probe entity at the same time."""
    return f"mlcat-ingest-check-{secrets.token_hex(8)}{tail}"


def name_of(urn: str) -> str:
    """Return the name of a probe entity."""
    found = _NAME.search(urn)
    return urn if found is None else found[0]


def probe_urn(tail: str = "", env: str = "PROD") -> str:
    """Return the URN of a probe entity; its name ends with `tail`, as it stands."""
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{probe_name(tail)},{env})"


def probe_properties(text: str, source: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return the properties of a probe entity; a search for the entities of `source` finds it."""
    custom = {PROBE_KEY: text} if source is None else {PROBE_KEY: text, SOURCE_KEY: source}
    return {
        "name": "mlcat-ingest check",
        "description": "A test entity of `mlcat-ingest check --write`; it can be deleted.",
        "customProperties": custom,
        **fields,
    }


def group_urn() -> str:
    """Return the URN of a group of probe entities."""
    return f"urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{probe_name()},PROD)"


def version_set_urn() -> str:
    """Return the URN of a version set of probe entities."""
    return f"urn:li:versionSet:({probe_name()},mlModel)"


def version_of(urn: str, version_set: str, label: str, **fields: Any) -> Proposal:
    """Return the proposal that makes a model a version of a set."""
    value: dict[str, Any] = {
        "versionSet": version_set,
        "version": {"versionTag": label},
        "sortId": label.zfill(8),
        "versioningScheme": "LEXICOGRAPHIC_STRING",
        **fields,
    }
    return Proposal(urn, VERSION_PROPERTIES, value)


def delete_probe(client: CatalogClient, urn: str) -> Finding:
    """Delete an entity for good, or mark it as removed; return what came of it.

    Cost: two requests.
    """
    try:
        client.delete_entity(urn)
    except MlcatError as error:
        return _soft_delete_probe(client, urn, error)
    entity_type = entity_type_of(urn)
    kind = ENTITIES.get(entity_type)
    aspect = (kind and kind.properties) or key_aspect_name(entity_type)
    try:
        left = client.read_many([urn], [aspect, STATUS])
    except MlcatError as error:
        # To mark it as removed would make it anew.
        message = f"{urn} was deleted; reading it back failed: {error.message}"
        return Finding(PROBE_DELETION, "warning", message, error.hint)
    if urn in left:
        message = f"{urn} was deleted and still exists"
        return Finding(PROBE_DELETION, "failed", message, _by_hand(urn))
    return Finding(PROBE_DELETION, "ok", f"the probe is hard-deleted: {urn}")


def _soft_delete_probe(client: CatalogClient, urn: str, cause: MlcatError) -> Finding:
    """Return what is left of a probe that could not be deleted: marked as removed, at best."""
    try:
        refused: list[AspectRejectedError] = client.write(
            [Proposal(urn, STATUS, {"removed": True})]
        )
    except MlcatError:
        refused = [AspectRejectedError(urn=urn, aspect=STATUS, status=0, reason="")]
    if refused:
        return Finding(PROBE_DELETION, "failed", f"{urn} remains: {cause.message}", _by_hand(urn))
    message = f"{urn} is soft-deleted, not hard-deleted: {cause.message}"
    return Finding(PROBE_DELETION, "warning", message, _by_hand(urn))


def _by_hand(urn: str) -> str:
    return f'delete it by hand: datahub delete --urn "{urn}" --hard'


class ProbeNotPossibleError(Exception):
    """A probe lacks something that it needs; the text says what. `probes` answers for it."""


_FOUND: Final = """
query found($input: ScrollAcrossEntitiesInput!) {
  scrollAcrossEntities(input: $input) { searchResults { entity { urn } } }
}
"""


class ProbeEntities:
    """The probe entities of one service, and requests about them as they come to mind.

    Other than a run, it also sends what a service should refuse. For one thread.
    """

    def __init__(self, connection: Connection, patience_s: float = INDEX_PATIENCE_S) -> None:
        """Keep the connection, and how long to wait for the search index."""
        # A client of its own, which refuses no environment.
        self.client = CatalogClient(connection=connection)
        self.patience_s = patience_s
        self._connection = connection
        self._written: dict[str, None] = {}
        self._dropped: set[str] = set()
        self._index_is_late = False

    @cached_property
    def service(self) -> Capabilities:
        """The service's description of itself."""
        return read_capabilities(self._connection)

    @cached_property
    def subject(self) -> str:
        """A model that is stored; written with the first use."""
        urn = probe_urn()
        self.write(Proposal(urn, PROBE_ASPECT, probe_properties("1")))
        return urn

    @cached_property
    def versions(self) -> tuple[str, str, str]:
        """A version set and its two versions, written one after the other."""
        version_set = version_set_urn()
        first, second = probe_urn(), probe_urn()
        for number, urn in enumerate((first, second), start=1):
            self.write(
                Proposal(urn, PROBE_ASPECT, probe_properties("1", name_of(version_set))),
                version_of(urn, version_set, str(number)),
            )
        return version_set, first, second

    def send(self, *proposals: Proposal) -> Reply:
        """Return the reply to one request with all of `proposals`, taken or refused.

        Raises:
            NotAuthorizedError: the token may not write one of them.
            CatalogUnavailableError: the service has a fault, or does not answer.
        """
        new = [urn for urn in _urns_of(proposals) if urn not in self._written]
        # Before it is sent: a request without an answer may have been heard all the same.
        self._written.update(dict.fromkeys(new))
        reply = self.client.send(proposals)
        if not reply.ok and reply.status < 500:
            for urn in dict.fromkeys(new):
                del self._written[urn]
        if reply.status == 403 or reply.status >= 500:
            raise self._connection.refusal(reply, what="a write")
        return reply

    def write(self, *proposals: Proposal) -> None:
        """Write something that a probe needs; raises as `send`.

        Raises:
            ProbeNotPossibleError: it is refused.
        """
        reply = self.send(*proposals)
        if not reply.ok:
            raise ProbeNotPossibleError(f"a required request was refused: {self.words(reply)}")

    def words(self, reply: Reply) -> str:
        """Return the status of a reply and the service's words."""
        if reply.ok:
            return str(reply.status)
        return f"{reply.status}: {self._connection.message(reply)}"

    def read(self, urns: Sequence[str], aspect: str = PROBE_ASPECT) -> dict[str, Aspect]:
        """Return one aspect of those of `urns` that have it.

        Cost: one request, or one a URN where the service refuses one of them.
        """
        found: dict[str, Aspect] = {}
        try:
            held = self.client.read_many(urns, [aspect])
        except CatalogRequestError:
            if len(urns) > 1:
                for urn in urns:
                    found.update(self.read([urn], aspect))
                return found
            held = {}  # a service may refuse to read a URN that it would not store
        found = {urn: aspects[aspect].value for urn, aspects in held.items()}
        if aspect == PROBE_ASPECT:
            self._dropped.update(urn for urn in urns if urn not in found)
        return found

    def find_live(self, source: str) -> set[str]:
        """Return the live models of `source` that a search as a run makes it finds.

        Cost: one request.
        """
        pages = self.client.search.entities_of_source("mlModel", source).pages
        return {urn for page in pages for urn in page}

    def find_without_flags(self, key: str, value: str) -> set[str]:
        """Return the models that a search without flags finds by a custom property.

        Cost: one request.
        """
        named = {"field": "customProperties", "values": [f"{key}={value}"], "condition": "EQUAL"}
        query = {"types": ["MLMODEL"], "query": "*", "count": 10, "orFilters": [{"and": [named]}]}
        found = self.client.graphql(_FOUND, {"input": query})["scrollAcrossEntities"]
        return {str(hit["entity"]["urn"]) for hit in found["searchResults"]}

    def wait_until(self, holds: Callable[[], bool]) -> float | None:
        """Return the seconds until the search index showed something; None if it did not in time.

        Once it was late it is given no time any more.
        """
        began_s = time.monotonic()
        while not holds():
            if self._index_is_late or time.monotonic() - began_s >= self.patience_s:
                self._index_is_late = True
                return None
            time.sleep(_PAUSE_S)
        return time.monotonic() - began_s

    def require(self, holds: Callable[[], bool]) -> None:
        """Return once the search index shows something that a probe needs.

        Raises:
            ProbeNotPossibleError: it does not in time.
        """
        if self.wait_until(holds) is None:
            raise ProbeNotPossibleError("the search index did not show a write in time")

    def delete(self) -> Iterator[Finding]:
        """Delete all of them, the last one first; yield one finding, or one for each that is left.

        Cost: two requests an entity.
        """
        deleted = failures = 0
        left: list[Finding] = []
        for urn in reversed(self._written):
            if failures >= _FAILURES:
                left.append(Finding(PROBE_DELETION, "failed", f"{urn} may remain", _by_hand(urn)))
                continue
            if urn in self._dropped:
                with suppress(MlcatError):  # a service may refuse to delete what it did not store
                    self.client.delete_entity(urn)
                continue
            finding = delete_probe(self.client, urn)
            failures = failures + 1 if finding.outcome == "failed" else 0
            if finding.outcome == "ok":
                deleted += 1
            else:
                left.append(finding)
        self._written.clear()
        if deleted:
            entities = plural(deleted, "probe entity", "probe entities")
            yield Finding(PROBE_DELETION, "ok", f"{entities} deleted, none remains")
        yield from left


def _urns_of(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yield the URNs of entities that `proposals` make: a version set before its versions."""
    for one in proposals:
        if one.aspect_name == VERSION_PROPERTIES:
            yield str(one.aspect["versionSet"])
    for one in proposals:
        yield one.entity_urn


def lacking(sent: Mapping[str, Any], held: Mapping[str, Any] | None) -> Collection[str]:
    """Return the fields of an aspect that was sent which the stored one does not have."""
    return sorted(sent.keys() - (held or {}).keys())
