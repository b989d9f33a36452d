"""What the service at an address is and can do, asked once from its ``/config``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.responses import ADDRESS_HINT, wrong_address
from mlcat_ingest.errors import AuthenticationError, ProtocolMismatchError

Dialect = Literal["shouldPush", "push"]
"""Parameter names of the evaluate endpoint: `shouldPush`, `testUrns` (published) or `push`,
`tests` (DataHub's own resource)."""

_DATAHUB = "acryldata/datahub"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What ``/config`` says: `datahub_version` is None for every service but DataHub."""

    datahub: bool
    datahub_version: str | None

    @property
    def dialect(self) -> Dialect:
        """The parameter names that this service's evaluate endpoint declares."""
        return "push" if self.datahub else "shouldPush"

    def describe(self) -> str:
        """Return a name for the service in a line for the user."""
        if not self.datahub:
            return "the catalog"
        return f"DataHub {self.datahub_version}" if self.datahub_version else "DataHub"


def probe(connection: Connection) -> Capabilities:
    """Return what the service says it is.

    Raises:
        ProtocolMismatchError: what answers is not a catalog service.
        AuthenticationError: a web page answers in its place.
        CatalogUnavailableError: nothing answers.

    Source: ``/config``, where ``noCode`` is the text "true" on every supported server.
    Cost: one request.
    """
    try:
        reply = connection.get("/config")
    except AuthenticationError as error:
        if error.context.get("status") == 401:
            raise
        raise AuthenticationError(
            error.message,
            hint="a login page, or DataHub's web address? then try it with /api/gms at its end",
            context=error.context,
        ) from error
    if reply.status == 404:
        raise wrong_address(reply, connection.message(reply))
    if not reply.ok:
        raise connection.refusal(reply, what="the request for its configuration")
    config = reply.json()
    if not isinstance(config, dict) or str(config.get("noCode")).lower() != "true":
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} does not describe itself as a catalog service",
            hint=ADDRESS_HINT,
        )
    return _read(config)


def _read(config: Mapping[str, Any]) -> Capabilities:
    versions = config.get("versions")
    entry = versions.get(_DATAHUB) if isinstance(versions, dict) else None
    version = entry.get("version") if isinstance(entry, dict) else None
    known = isinstance(version, str) and version not in {"", "null"}
    return Capabilities(datahub=entry is not None, datahub_version=version if known else None)
