"""A catalog that stores a batch after the client has given up waiting for its answer."""

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from mlcat_ingest.workflows.ingest import Pipeline
from support import small_store
from support.catalog_server import running_catalog
from support.faults import forward

LOOKS = 2


@dataclass
class SlowCatalog:
    """A script for `failing_service`: the first write of models is stored as the client looks.

    It is answered by nobody, or by a proxy with `status`, and stored with the look of that number.
    """

    upstream: str
    status: int | None
    events: list[str] = field(default_factory=list)
    _under_way: ServiceRequest | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        with self._lock:
            if (
                "action=ingestProposalBatch" in request.path
                and b"mlModelProperties" in request.body
            ):
                return self._written(request)
            if self._under_way is not None and "batchGet" in request.path:
                self._looked_at(request)
        return forward(self.upstream, request)

    def _written(self, request: ServiceRequest) -> ServiceAnswer:
        proposals = json.loads(request.body)["proposals"]
        has_key = any(one["aspectName"] == "mlModelKey" for one in proposals)
        self.events.append("equal values" if has_key else "write")
        if len(self.events) > 1:
            return forward(self.upstream, request)
        self._under_way = request
        if self.status is None:
            return ServiceAnswer(silent=True)
        return ServiceAnswer(self.status, b"", {"Content-Type": "text/plain"})

    def _looked_at(self, request: ServiceRequest) -> None:
        self.events.append("look" if len(json.loads(request.body)) == 1 else "read")
        if self._under_way is not None and self.events.count("look") == LOOKS:
            assert forward(self.upstream, self._under_way).status == 200
            self._under_way = None


@pytest.mark.parametrize("status", [None, 408, 504])
def test_a_batch_that_is_stored_late_is_sent_by_nobody_meanwhile(
    status: int | None, tmp_path: Path
) -> None:
    with running_catalog(tmp_path / "catalog.db") as upstream:
        slow = SlowCatalog(upstream.url, status)
        with failing_service(slow) as proxy:
            store = small_store.make(tmp_path, proxy.url)
            for number in range(3):
                store.add_run(f"more{number}", lr="0.3")
            path = Path(store.recipe())
            sink = f"server: '{proxy.url}', timeout_s: 2, connections: 1"
            path.write_text(path.read_text().replace(f"server: '{proxy.url}'", sink))
            report = Pipeline(Recipe.load(path)).run()
            assert (report.exit_code, report.conflicts) == (0, 0)
            # Once more with equal values: whether the search index learned of it is not known.
            assert slow.events == ["write", *["look"] * LOOKS, "equal values"]
            assert Pipeline(Recipe.load(path)).run(full=True).proposals_sent == 0
