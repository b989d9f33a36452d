"""A registry server over gRPC, what Feast calls a remote registry (extra `feast`).

Source: `feast.registry.RegistryServer` of feast 0.67. Its `Proto` sends the objects of all projects
without saying whose they are, and loads their functions first; so each project's are listed.
"""

from collections.abc import Iterator
from typing import Final

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.raw import (
    Kind,
    RawObject,
    raw_object,
    split_registry,
    submessages,
)
from mlcat_ingest.sources.feast.transport.channel import RegistryChannel
from mlcat_ingest.sources.feast.transport.checks import findings
from mlcat_ingest.sources.feast.transport.whole import too_large

_LISTINGS: Final[tuple[tuple[Kind, str], ...]] = (
    ("entity", "ListEntities"),
    ("data_source", "ListDataSources"),
    ("feature_view", "ListFeatureViews"),
    ("stream_feature_view", "ListStreamFeatureViews"),
    ("on_demand_feature_view", "ListOnDemandFeatureViews"),
    ("label_view", "ListLabelViews"),
    ("feature_service", "ListFeatureServices"),
)
_LATE: Final = frozenset({"ListLabelViews"})
"""Methods that servers of older versions lack."""

# In each answer and request of these, the field of the objects and that of the project.
_FIRST: Final = 1


class GrpcRegistry(Awaits):
    """Reads a registry from its server; see `raw.Transport`."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Contact nothing yet.

        Raises:
            RecipeError: it is to accept any certificate.
        """
        self._channel = RegistryChannel(address, config)
        self._max_bytes = config.max_bytes

    def server_id(self) -> str:
        """Return host and port."""
        return self._channel.target

    def objects(self) -> Iterator[RawObject]:
        """Yield every object of every project that the user may see.

        Raises: what `RegistryChannel.call` does.

        Cost: seven requests a project and one more; memory for the objects of one kind.
        """
        projects = self._listed("project", "ListProjects", "")
        if projects is None:
            # Before there were projects in it, a registry itself was sent.
            content = self._channel.call("Proto")
            if content is None:
                raise self._mismatch("knows neither ListProjects nor Proto")
            yield from split_registry(content, self._channel.target)
            return
        total = 0
        for project in projects:
            yield project
            for kind, method in _LISTINGS:
                listed = self._listed(kind, method, project.name)
                if listed is None and method not in _LATE:
                    raise self._mismatch(f"does not know {method}")
                for raw in listed or ():
                    total += len(raw.proto)
                    if total > self._max_bytes:
                        raise too_large(self._channel.target, None, self._max_bytes)
                    yield raw

    def _listed(self, kind: Kind, method: str, project: str) -> list[RawObject] | None:
        # The server looks at the registry itself, unless a request says `allow_cache`.
        answer = self._channel.call(method, _text_field(project) if project else b"")
        if answer is None:
            return None
        try:
            return [raw_object(kind, one, project) for one in submessages(answer, _FIRST)]
        except ValueError:
            raise self._mismatch(f"answers {method} with another message") from None

    def _mismatch(self, what: str) -> ProtocolMismatchError:
        return ProtocolMismatchError(
            f"{self._channel.target} is no Feast registry server: it {what}",
            hint="`feast serve_registry` is what has to answer there",
        )

    def requests_made(self) -> int:
        """Return how many requests were sent."""
        return self._channel.requests

    def check(self) -> Iterator[Finding]:
        """Yield whether the registry can be read, and what it holds."""
        return findings(self, self._channel.target)

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._channel.close()


def _text_field(text: str) -> bytes:
    """Return a message whose first field is `text`."""
    content, header = text.encode(), bytearray([_FIRST << 3 | 2])
    length = len(content)
    while length > 0x7F:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*header, length]) + content
