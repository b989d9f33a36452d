"""One run of a small recipe in a process of its own, which may be killed at a chosen moment.

    python killed_run.py STATE_URL CATALOG_URL COUNT [acknowledge|commit|flush NUMBER]

The report's JSON goes to stdout. `acknowledge`, `flush` and `commit` name the moment between a
write and what is remembered of it: right after the acknowledgement, before the rows, before the
checkpoint.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report.render import as_json
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.base import (
    Finished,
    Page,
    Partition,
    ReadRequest,
    RecordVersion,
    Source,
)
from support.fakes import FakeRecord, model_urn
from support.recipes import a_recipe


class Numbers(Source[FakeRecord]):
    """A source of `count` models."""

    def __init__(self, count: int) -> None:
        self._count = count

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        identity = {"number": model_urn("0")}
        partition = request.state.partition(Partition("numbers:1:default", "", identity, ""))
        for start in range(0, self._count, 100):
            numbers = range(start, min(start + 100, self._count))
            records = [FakeRecord(one, RecordVersion("number", str(one))) for one in numbers]
            yield Page(records, partition)
        yield Finished(partition, {"count": self._count}, complete=True)

    def map(self, record: FakeRecord) -> Iterable[Entity]:
        number = record.value
        return [Entity(model_urn(f"n{number}"), {"mlModelProperties": {"name": f"n {number}"}})]

    def close(self) -> None:
        """Nothing is open."""


def run(state_url: str, catalog_url: str, count: int, moment: str = "", number: int = 0) -> Report:
    """Run once; at the `number`-th `moment` the process is killed."""
    state = StateSession(state_url, StateOptions("killed"))
    if moment:
        owner: Any = state if moment == "commit" else state.tracker
        real, calls = getattr(owner, moment), iter(range(10**9))

        def perhaps_killed(*args: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        setattr(owner, moment, perhaps_killed)
    sink = RestCatalog(RestSinkConfig(server=catalog_url, retry_for_s=1))
    options = RunOptions(a_recipe("killed", evaluate={"enabled": False}), state=state)
    return PipelineRun([Numbers(count)], sink, options).execute()


if __name__ == "__main__":
    url, catalog, size, *rest = sys.argv[1:]
    when = rest[0] if rest else ""
    sys.stdout.write(as_json(run(url, catalog, int(size), when, int(rest[1]) if rest else 0)))
