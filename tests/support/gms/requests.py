"""A request as the server saw it, and the proposals in it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.catalog.web.http import PREFIXES

_ACTIONS: Final = {"ingestProposal": "proposal", "ingestProposalBatch": "proposals"}


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request: its path without a gateway's prefix, its query decoded, its body as sent."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)

    @property
    def is_write(self) -> bool:
        """Return whether it brings proposals to `/aspects`."""
        return self.path == "/aspects" and self.query.get("action") in _ACTIONS

    @property
    def proposals(self) -> Sequence[Mapping[str, Any]]:
        """Return the proposals in it; none in a request that does not write."""
        if not self.is_write:
            return ()
        content = self.json()[_ACTIONS[self.query["action"]]]
        return content if isinstance(content, list) else [content]

    @property
    def read_urns(self) -> Sequence[str]:
        """Return the URNs whose aspects a read asks for, in its path or in the list of a batch."""
        if self.method == "POST":
            return [str(one.get("urn")) for one in self.json()]
        return [part for part in self.path.split("/") if part.startswith("urn:li:")]


def path_in(path: str) -> str:
    """Return `path` without a gateway's prefix and without a slash at the end."""
    prefixes = sorted(PREFIXES, reverse=True)
    prefix = next(prefix for prefix in prefixes if path.startswith(f"{prefix}/"))
    return path.removeprefix(prefix).rstrip("/")


def with_proposals(request: SeenRequest, proposals: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the body of a write with other proposals in it, of which there is at least one."""
    name = _ACTIONS[request.query["action"]]
    content = proposals[0] if name == "proposal" else list(proposals)
    return json.dumps({**request.json(), name: content}).encode()


def value_of(proposal: Mapping[str, Any]) -> Any:
    """Return the value of a proposal's aspect; None where it has none."""
    aspect = proposal.get("aspect")
    if isinstance(aspect, dict) and isinstance(aspect.get("value"), str):
        return json.loads(aspect["value"])
    return aspect


def with_value(proposal: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return a proposal with another value of its aspect."""
    aspect = proposal["aspect"]
    if isinstance(aspect.get("value"), str):
        return {**proposal, "aspect": {**aspect, "value": json.dumps(value)}}
    return {**proposal, "aspect": value}


def named_urns(proposals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the URN of each proposal, each once."""
    yield from dict.fromkeys(str(one.get("entityUrn", "")) for one in proposals)
