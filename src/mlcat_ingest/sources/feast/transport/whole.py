"""Registries that are fetched as a whole, as one message: files, objects in stores, servers."""

from collections.abc import Iterator
from typing import Protocol

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import RecipeError, SourceUnavailableError
from mlcat_ingest.sources.feast.raw import RawObject, split_registry
from mlcat_ingest.sources.feast.transport.checks import findings


class RegistryContent(Protocol):
    """One serialized registry, wherever it is; `shown` names the place publicly."""

    shown: str
    requests: int

    def identity(self) -> str:
        """Return what tells this registry from others, without secrets."""
        ...

    def fetch(self) -> bytes:
        """Return the registry as it is at one moment.

        Raises: as `Source.read`; RecipeError where there is none, or it is too large.
        """
        ...

    def close(self) -> None:
        """Release connections; safe to call twice."""
        ...


class WholeRegistry(Awaits):
    """Reads a registry that is one message; see `raw.Transport`."""

    def __init__(self, content: RegistryContent) -> None:
        """Contact nothing yet."""
        self._content = content

    def server_id(self) -> str:
        """Return the identity of the place."""
        return self._content.identity()

    def objects(self) -> Iterator[RawObject]:
        """Yield every object; the registry is fetched anew each time.

        Cost: one request, and memory for the registry.
        """
        yield from split_registry(self._content.fetch(), self._content.shown)

    def requests_made(self) -> int:
        """Return how many requests were sent; a local file needs none."""
        return self._content.requests

    def check(self) -> Iterator[Finding]:
        """Yield whether the registry can be read, and what it holds."""
        return findings(self, self._content.shown)

    def close(self) -> None:
        """Release connections."""
        self._content.close()


def too_large(shown: str, size: int | None, max_bytes: int) -> RecipeError:
    """Return the error about a registry of more than `max_bytes`."""
    told = "more" if size is None else f"{size:,} bytes, more"
    return RecipeError(
        f"{shown} holds {told} than the {max_bytes:,} bytes that are allowed",
        hint="is it a registry at all? `max_bytes` in the recipe is the limit",
    )


def cut_off(shown: str, size: int, whole: int) -> SourceUnavailableError:
    """Return the error about a registry of which only a part, `size` bytes, arrived."""
    return SourceUnavailableError(
        f"{shown} breaks off after {size:,} of {whole:,} bytes",
        hint="is it being written? try again",
    )
