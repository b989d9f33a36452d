"""What a catalog service can do: the facts of DataHub's releases by which a client decides.

`/config` names the release, unless the recipe does. Facts that the release does not decide are
learned from the server's answers, such as privileges and the evaluation of metadata tests.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.responses import ADDRESS_HINT
from mlcat_ingest.core.environment import package_version
from mlcat_ingest.errors import AuthenticationError, ProtocolMismatchError
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH
from mlcat_ingest.metadata.urn import FABRICS

_DATAHUB: Final = "acryldata/datahub"
_OURS: Final = "mlcat-ingest"
_FRONTENDS_PATH: Final = "/api/gms"
_VERSION = re.compile(r"v?(\d+)\.(\d+)")

_SMALLEST_RELEASE: Final = (1, 0)
"""The oldest supported release of DataHub: older ones acknowledge some aspects of models, and drop
them. Source: entity-registry.yml and MLModelProperties.pdl of v0.15 and v1.0."""

_CONDITIONS_SINCE: Final = (0, 14)
"""The first release of DataHub that enforces conditions. Source: `ConditionalWriteValidator`."""

_RELEASES: Final = Path(__file__).with_name("releases.csv")


def _since(column: str) -> Mapping[str, tuple[int, int]]:
    """Return the first releases that have what a column of the table lists."""
    return {
        added: (int(major), int(minor))
        for row in csv.DictReader(_RELEASES.read_text("utf-8").splitlines())
        for major, minor in (row["release"].split("."),)
        for added in filter(None, row[column].split("; "))
    }


_ENVIRONMENTS_SINCE: Final = _since("environments")
"""Releases of DataHub by the environments that they added. Source: `FabricType.pdl`."""

_STORED_SINCE: Final = _since("stores")
"""First releases that store a part of what runs write, of those that a supported one drops, named
as the report names what is dropped. Source: `docs/reference/compatibility.md`."""


_TYPES_SINCE: Final = _since("types")
"""First releases that have an entity type of a source, of those that a supported one lacks.

DataHub 1.7.0 stores services without their custom properties, and so without source and base."""

NEW_TYPES: Final = frozenset(_TYPES_SINCE)
"""Entity types of sources that a supported catalog may lack."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A service as it describes itself: `datahub_version` is None for all but DataHub.

    One of the `same_version` is the embedded catalog of this version of the program.
    """

    datahub: bool
    datahub_version: str | None
    same_version: bool = False

    @property
    def release(self) -> tuple[int, int] | None:
        """The release of DataHub, None where the version is not known."""
        numbers = _VERSION.match(self.datahub_version or "")
        return None if numbers is None else (int(numbers[1]), int(numbers[2]))

    @property
    def is_supported(self) -> bool:
        """False for a release that is known to be older than the smallest supported one."""
        return self.release is None or self.release >= _SMALLEST_RELEASE

    @property
    def enforces_conditions(self) -> bool | None:
        """Whether it compares the version that a write names, None where that is not known."""
        return None if self.release is None else self.release >= _CONDITIONS_SINCE

    @property
    def environments(self) -> frozenset[str]:
        """The environments that entities may have; all where the version is not known."""
        return FABRICS - {*self._lacking(_ENVIRONMENTS_SINCE)}

    @property
    def dropped(self) -> list[str]:
        """Parts of what runs write that the release drops, as the report names them."""
        return self._lacking(_STORED_SINCE)

    @property
    def lacking_types(self) -> frozenset[str]:
        """The entity types that the release is known to lack."""
        return frozenset(self._lacking(_TYPES_SINCE))

    def _lacking(self, since: Mapping[str, tuple[int, int]]) -> list[str]:
        release = self.release
        return [one for one, first in since.items() if release is not None and release < first]

    @property
    def may_drop(self) -> bool:
        """True unless it is known to store all parts of what runs write."""
        if self.datahub:
            return self.release is None or bool(self.dropped)
        return not self.same_version

    @property
    def behaviour(self) -> str:
        """The row of a known release, as words for the user."""
        missing = sorted(FABRICS - self.environments)
        facts = [
            f"{'enforces' if self.enforces_conditions else 'ignores'} {IF_VERSION_MATCH}",
            f"has no environment {', '.join(missing)}" if missing else "has all environments",
            f"acknowledges and drops {' and '.join(self.dropped)}"
            if self.dropped
            else "stores all aspects that runs write",
        ]
        return f"{self.describe()} {'; '.join(facts)}"

    def group_page(self, server: str, ui_url: str | None) -> str:
        """Return the address of a group's page, with `{urn}` for its percent-encoded URN.

        It is empty for DataHub's GMS, unless `server` is a path of the frontend: GMS has no pages.

        Source: `make_url_for_urn` of DataHub's SDK.
        """
        if not self.datahub:
            return f"{ui_url or pages_of(server)}/entity/{{urn}}"
        pages = ui_url or (pages_of(server) if server.endswith(_FRONTENDS_PATH) else "")
        return f"{pages}/mlModelGroup/{{urn}}" if pages else ""

    def upgrade_message(self) -> str:
        """Return the sentence for the user about a release that is not supported."""
        smallest = ".".join(map(str, _SMALLEST_RELEASE))
        return (
            f"{self.describe()} is older than v{smallest}.0, the oldest supported release: "
            "it acknowledges some aspects of models but drops them"
        )

    def describe(self) -> str:
        """Return a name for the service in a line for the user."""
        if not self.datahub:
            return "the catalog"
        return f"DataHub {self.datahub_version}" if self.datahub_version else "DataHub"


def pages_of(server: str) -> str:
    """Return the address of the pages of a service whose API is at `server`."""
    return server.rstrip("/").removesuffix(_FRONTENDS_PATH).removesuffix("/gms")


def read_capabilities(connection: Connection) -> Capabilities:
    """Return what the service says it is.

    Raises:
        ProtocolMismatchError: what answers is not a catalog service.
        AuthenticationError: a web page answers in its place.
        CatalogUnavailableError: nothing answers.

    Source: ``/config``, where ``noCode`` is the text "true" on every supported server.
    Cost: one request.
    """
    try:
        reply = connection.read("/config")
    except AuthenticationError as error:
        if error.context.get("status") == 401:
            raise
        raise AuthenticationError(
            error.message,
            hint="a login page may protect the service; for DataHub's web address, append /api/gms",
            context=error.context,
        ) from error
    if reply.status == 404:
        raise connection.wrong_address(reply)
    if not reply.ok:
        raise connection.refusal(reply, what="the request for its configuration")
    config = reply.json()
    if not isinstance(config, dict) or str(config.get("noCode")).lower() != "true":
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} is not a catalog service",
            hint=ADDRESS_HINT,
        )
    versions = config.get("versions")
    listed = versions if isinstance(versions, dict) else {}
    datahub, ours = (
        entry.get("version") if isinstance(entry := listed.get(name), dict) else None
        for name in (_DATAHUB, _OURS)
    )
    known = isinstance(datahub, str) and datahub not in {"", "null"}
    return Capabilities(
        datahub=listed.get(_DATAHUB) is not None,
        datahub_version=datahub if known else None,
        same_version=ours == package_version(),
    )
