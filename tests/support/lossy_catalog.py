"""A proxy in front of the embedded catalog whose search index never learns of some writes.

So does a DataHub server that is killed between its database and its index, or that acknowledges a
write and then fails to queue it. A write that names the aspect again, with equal values too, cures
it. It is a script for `failing_service`, and knows nothing of how anybody finds out.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest
from support.faults import forward

Loss = Literal["under way", "acknowledged"]
PROPERTIES = {
    "mlModel": "mlModelProperties",
    "mlModelGroup": "mlModelGroupProperties",
}


@dataclass
class LossyCatalog:
    """The script; the changes of the `loses`-th write are lost, as `loss` says.

    One that is `under_way` is stored, and its answer is lost too. With `kills` no later request of
    the client is answered, as for a client that is killed.
    """

    upstream: str
    loses: int = 0
    loss: Loss = "acknowledged"
    kills: bool = False
    writes: int = 0
    lost: set[tuple[str, str]] = field(default_factory=set)
    is_over: bool = False

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        with self._lock:
            if self.is_over:
                return ServiceAnswer(reset=True)
            if "action=ingestProposal" in request.path:
                return self._written(request)
        answer = forward(self.upstream, request)
        if request.path.startswith("/api/graphql") and answer.status == 200:
            found = json.loads(answer.body)
            self._leave_out(found)
            return ServiceAnswer(body=json.dumps(found).encode())
        return answer

    def _written(self, request: ServiceRequest) -> ServiceAnswer:
        self.writes += 1
        answer = forward(self.upstream, request)
        if answer.status != 200:
            return answer
        places = set(_places(json.loads(request.body)))
        if self.writes != self.loses:
            self.lost -= places
            return answer
        self.lost |= places
        self.is_over = self.kills
        return ServiceAnswer(reset=True) if self.loss == "under way" else answer

    def _leave_out(self, found: Any) -> None:
        """Take out of an answer the entities that the index does not know, and their edges."""
        if isinstance(found, list):
            for one in found:
                self._leave_out(one)
        elif isinstance(found, dict):
            for name in ("searchResults", "relationships"):
                if isinstance(entries := found.get(name), list):
                    known = [one for one in entries if not self._is_lost(one["entity"]["urn"])]
                    found[name] = known
                    found["total"] = found.get("total", 0) - (len(entries) - len(known))
            for one in found.values():
                self._leave_out(one)

    def _is_lost(self, urn: str) -> bool:
        return any(place == (urn, PROPERTIES.get(urn.split(":")[2])) for place in self.lost)


def _places(body: Any) -> Iterator[tuple[str, str]]:
    for one in body.get("proposals") or [body["proposal"]]:
        yield one["entityUrn"], one["aspectName"]
