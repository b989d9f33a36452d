"""What the service at an address is and can do, asked once from its ``/config``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.responses import ADDRESS_HINT, wrong_address
from mlcat_ingest.errors import AuthenticationError, ProtocolMismatchError
from mlcat_ingest.metadata.urn import FABRICS

SMALLEST_RELEASE: Final = (1, 0)
"""The oldest supported release of DataHub: older ones acknowledge some aspects of models, and drop
them. Source: entity-registry.yml and MLModelProperties.pdl of v0.15 and v1.0."""

_DATAHUB = "acryldata/datahub"

_VERSION = re.compile(r"v?(\d+)\.(\d+)")

_ENVIRONMENTS_SINCE: Final = {
    "SANDBOX": (0, 15),
    **dict.fromkeys(("PRD", "TST", "SIT", "SBX"), (1, 2)),
    "CERT": (1, 7),
}
"""Releases of DataHub by the environments that they added. Source: `FabricType.pdl`."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What ``/config`` says: `datahub_version` is None for every service but DataHub."""

    datahub: bool
    datahub_version: str | None

    @property
    def release(self) -> tuple[int, int] | None:
        """The release of DataHub, None where the version is not known."""
        found = _VERSION.match(self.datahub_version or "")
        return None if found is None else (int(found[1]), int(found[2]))

    @property
    def is_supported(self) -> bool:
        """Whether the release is not known to be older than the smallest supported one."""
        return self.release is None or self.release >= SMALLEST_RELEASE

    @property
    def environments(self) -> frozenset[str]:
        """The environments that entities may have; all where the version is not known."""
        release = self.release
        if release is None:
            return FABRICS
        return FABRICS - {env for env, since in _ENVIRONMENTS_SINCE.items() if release < since}

    def unsupported(self) -> str:
        """Return the sentence for the user about a release that is not supported."""
        smallest = ".".join(map(str, SMALLEST_RELEASE))
        return (
            f"{self.describe()} is older than v{smallest}.0, the oldest supported release: it "
            "acknowledges some aspects of models and drops them"
        )

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
