"""A proxy that counts what a server is asked, so that budgets hold by what the server sees."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from support.faults import forward


@dataclass
class CountingProxy:
    """Passes requests to one server on; `seen` has method and path of each, in order.

    `refused` has those that the server answered with a status of 400 or more.
    """

    server: str
    url: str = ""
    seen: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def take(self) -> list[str]:
        """Return what was seen since the last call."""
        found, self.seen = self.seen, []
        return found

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        self.seen.append(f"{request.method} {request.path}")
        answer = forward(self.server, request)
        if answer.status >= 400:
            self.refused.append(f"{request.method} {request.path.partition('?')[0]}")
        return answer


@contextmanager
def counting_proxy(server: str) -> Iterator[CountingProxy]:
    """Give a proxy in front of the server at the address `server`, until the block ends."""
    proxy = CountingProxy(server)
    with failing_service(proxy) as running:
        proxy.url = running.url
        yield proxy
