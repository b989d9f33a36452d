"""Pages of records: what a run over named runs reads, and chunks that are worth a request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import pytest

from mlcat_ingest.errors import CatalogUnavailableError, RecipeError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.read.chunks import Chunker
from mlcat_ingest.pipeline.read.pages import request_for
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.sources.base import (
    Capability,
    Changes,
    Everything,
    FeaturesOnly,
    Finished,
    NullState,
    Page,
    ReadRequest,
    ReadScope,
    Remainder,
    Runs,
    Shards,
)
from support.fakes import FakeRecord, FakeSink, FakeSource
from support.recipes import a_recipe


class Store(FakeSource):
    capabilities: ClassVar = frozenset({Capability.FEATURES})


@dataclass
class Tracking(FakeSource):
    """Finds some of the runs it is asked for."""

    capabilities: ClassVar = frozenset({Capability.RUNS})
    holds: frozenset[str] = frozenset()
    scopes: list[ReadScope] = field(default_factory=list)

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        self.scopes.append(request.scope)
        assert isinstance(request.scope, Runs)
        yield Finished(found_ids=self.holds.intersection(request.scope.ids))


def test_of_a_feature_store_only_the_index_is_read() -> None:
    state = NullState()
    assert request_for(Store(), Runs(["r1"]), state) == ReadRequest(FeaturesOnly(), state)
    assert request_for(Store(), Changes(), state) == ReadRequest(Changes(), state)
    assert request_for(Tracking(), Runs(["r1"]), state) == ReadRequest(Runs(["r1"]), state)


def test_a_run_tells_which_ids_its_sources_found() -> None:
    sources = [Tracking(holds=frozenset({"r1", "r4"})), Tracking(holds=frozenset({"r2"}))]
    run = PipelineRun(
        sources, FakeSink(), RunOptions(a_recipe("r"), scope=Runs(["r1", "r2", "r3"]))
    )
    assert run.execute().exit_code == 0
    assert run.found_ids == {"r1", "r2"}
    assert [one.scopes for one in sources] == [[Runs(["r1", "r2", "r3"])]] * 2


@pytest.mark.parametrize(
    ("scope", "needs"),
    [(Shards(["1"]), "SHARDS"), (Remainder(), "SHARDS"), (Runs(["r"]), "RUNS")],
)
def test_a_scope_that_a_source_does_not_declare_ends_the_run(scope: Any, needs: str) -> None:
    source = FakeSource(pages=[["never read"]])
    report = PipelineRun([source], FakeSink(), RunOptions(a_recipe("r"), scope=scope)).execute()
    assert (report.exit_code, source.requests) == (2, 0)
    message = f"cannot read {type(scope).__name__} (add it to `capabilities`: Capability."
    assert report.failure is not None
    assert f"{message}{needs})" in str(report.failure)
    with pytest.raises(RecipeError):
        request_for(source, FeaturesOnly(), NullState())
    for read in (Changes(), Everything()):
        assert request_for(source, read, NullState()).scope == read


def view(number: int) -> list[Entity]:
    """Return a table of 20 features, as a source of features yields it."""
    features = [Entity(f"urn:li:mlFeature:(p.v{number},f{at})", {}) for at in range(20)]
    table = f"urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,p.v{number})"
    return [*features, Entity(table, {})]


def test_tables_among_their_features_fill_chunks_of_their_own() -> None:
    chunker = Chunker(RunContext(FakeSink(), Ledger(Tally("any"))))
    entities = chain.from_iterable(map(view, range(250)))
    chunks = [*chunker.chunks(entities), *chunker.rest()]
    sizes: dict[str, list[int]] = {}
    for chunk in chunks:
        sizes.setdefault(next(iter(chunk.values())).entity_type, []).append(len(chunk))
    assert sizes == {"mlFeature": [200] * 25, "mlFeatureTable": [200, 50]}


def test_no_credential_of_an_address_reaches_the_catalog() -> None:
    urn = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,PROD)"
    custom = {"place": "s3://AKIA:S3CRET@bucket/x", "tag": "https://h/x?v=1&sig=S3CRET"}
    aspects: dict[str, Any] = {
        "mlModelProperties": {
            "customProperties": custom,
            "hyperParams": [{"name": "data", "value": "ftp://u:S3CRET@h"}],
            "externalUrl": "https://S3CRET@h/#/runs/1",
        },
        "sourceCode": {"sourceCode": [{"sourceCodeUrl": "https://u:S3CRET@h/r"}]},
    }
    sink = FakeSink()
    source = FakeSource([[Entity(urn, aspects)]])
    assert PipelineRun([source], sink, RunOptions(a_recipe("r"))).execute().exit_code == 0
    stored = str(sink.stored)
    assert "S3CRET" not in stored
    assert custom["place"] == "s3://AKIA:S3CRET@bucket/x"
    for shown in ("'s3://bucket/x'", "'https://h/x?v=1'", "'ftp://h'", "'https://h/#/runs/1'"):
        assert shown in stored


@pytest.mark.parametrize("status", [404, 500])
def test_a_catalog_gets_nothing_of_a_type_that_it_lacks(status: int) -> None:
    def lacks(urns: Sequence[str]) -> None:
        if ":service:" in urns[0]:
            raise CatalogUnavailableError("unknown type", context={"status": status})

    service = {"serviceProperties": {"displayName": "s"}}
    tool = {"apiProperties": {"name": "t"}}
    pages = [
        [Entity(f"urn:li:service:{n}", service), Entity(f"urn:li:api:{n}", tool)] for n in "ab"
    ]
    sink = FakeSink(place="here", before_read=lacks)
    report = PipelineRun([FakeSource(pages)], sink, RunOptions(a_recipe("r"))).execute()
    assert report.exit_code == 0
    assert sink.stored.keys() == {"urn:li:api:a", "urn:li:api:b"}
    assert report.notes["type_left_out"] == 2
    assert report.note_examples["type_left_out"] == ("the catalog has no entities of type service",)
