"""A service that takes a write and is gone before its answer: the next run writes it again."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.metadata.proposal import Entity
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
from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from support.catalog_server import running_catalog
from support.fakes import FakeRecord, model_urn
from support.faults import forward
from support.recipes import a_recipe

COUNT = 300
WRITE = "ingestProposalBatch"


class Numbers(Source[FakeRecord]):
    """A source of some models."""

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        identity = {"number": model_urn("0")}
        partition = request.state.partition(Partition("numbers:1:default", "", identity, ""))
        for start in range(0, COUNT, 100):
            numbers = range(start, start + 100)
            yield Page([FakeRecord(n, RecordVersion("number", str(n))) for n in numbers], partition)
        yield Finished(partition, {"count": COUNT}, complete=True)

    def map(self, record: FakeRecord) -> Iterable[Entity]:
        number = record.value
        return [Entity(model_urn(f"n{number}"), {"mlModelProperties": {"name": f"n {number}"}})]

    def close(self) -> None:
        """Nothing is open."""


def ingest(folder: Path, server: str) -> Report:
    state = StateSession(f"sqlite:///{folder}/state.db", StateOptions("lost"))
    sink = RestCatalog(RestSinkConfig(server=server, retry_for_s=1))
    options = RunOptions(a_recipe("lost", evaluate={"enabled": False}), state=state)
    return PipelineRun([Numbers()], sink, options).execute()


def test_what_a_service_took_before_it_was_killed_is_written_again(tmp_path: Path) -> None:
    stored: set[str] = set()
    dead = revived = False

    def service(request: ServiceRequest) -> ServiceAnswer:
        nonlocal dead
        if dead and not revived:
            return ServiceAnswer(hang_up=True)
        if WRITE in request.path and not revived:
            dead = True
            forward(catalog.url, request)  # it stores, and its index never hears of it
            stored.update(urns_of(request))
            return ServiceAnswer(hang_up=True)
        return forward(catalog.url, request)

    with running_catalog(tmp_path / "catalog.db") as catalog, failing_service(service) as proxy:
        assert ingest(tmp_path, proxy.url).exit_code == 1
        revived = True
        for again in (stored, set[str]()):
            proxy.requests.clear()
            assert ingest(tmp_path, proxy.url).exit_code == 0
            written = set[str]().union(*map(urns_of, proxy.requests))
            assert stored & written == again
    assert stored


def urns_of(request: ServiceRequest) -> set[str]:
    if WRITE not in request.path:
        return set()
    return {proposal["entityUrn"] for proposal in json.loads(request.body)["proposals"]}
