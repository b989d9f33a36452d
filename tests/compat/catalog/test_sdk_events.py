"""The unmodified DataHub SDK: stateful ingestion, events, references."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from support.catalog_server import RunningCatalog
from support.catalog_store import model, put
from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

mcp = pytest.importorskip("datahub.emitter.mcp")
schema = pytest.importorskip("datahub.metadata.schema_classes")
state = pytest.importorskip(
    "datahub.ingestion.source.state_provider.datahub_ingestion_checkpointing_provider"
)

DATASET = "urn:li:dataset:(urn:li:dataPlatform:hive,a.b,PROD)"


def checkpoint(at_ms: int, payload: str) -> Any:
    return schema.DatahubIngestionCheckpointClass(
        timestampMillis=at_ms,
        pipelineName="nightly",
        platformInstanceId="",
        config="{}",
        state=schema.IngestionCheckpointStateClass(
            formatVersion="1.0", serde="utf-8", payload=payload.encode()
        ),
        runId=f"run-{at_ms}",
    )


def test_stateful_ingestion_finds_its_last_checkpoint(graph: Any) -> None:
    def provider() -> Any:
        context = SimpleNamespace(graph=graph)
        return state.DatahubIngestionCheckpointingProvider.create({}, context)

    assert provider().get_latest_checkpoint("nightly", "job") is None
    for at_ms, payload in ((1_000, "first"), (3_000, "third"), (2_000, "second")):
        committing = provider()
        committing.state_to_commit = {"job": checkpoint(at_ms, payload)}
        committing.commit()
        assert committing.committed
    other = provider()
    other.state_to_commit = {"other": checkpoint(9_000, "other")}
    other.commit()
    found = provider().get_latest_checkpoint("nightly", "job")
    assert found == checkpoint(3_000, "third")
    assert provider().get_latest_checkpoint("weekly", "job") is None


def test_events_are_read_and_deleted(graph: Any) -> None:
    for at_ms in (1_000, 2_000, 3_000):
        profile = schema.DatasetProfileClass(timestampMillis=at_ms, rowCount=at_ms)
        graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=DATASET, aspect=profile))
    newest = graph.get_timeseries_values(DATASET, schema.DatasetProfileClass, {}, limit=2)
    assert [one.rowCount for one in newest] == [3_000, 2_000]
    gone = graph.hard_delete_timeseries_aspect(
        DATASET,
        "datasetProfile",
        start_time=None,
        end_time=datetime.fromtimestamp(2, tz=UTC),
    )
    assert gone == 2
    assert graph.hard_delete_entity(DATASET)[1] == 1


def test_references_are_deleted(catalog: RunningCatalog, graph: Any) -> None:
    tag = "urn:li:tag:pii"
    put(catalog.store, model("m"), globalTags={"tags": [{"tag": tag}]})
    count, related = graph.delete_references_to_urn(tag, dry_run=True)
    assert (count, related[0]["entity"]) == (1, model("m"))
    assert graph.delete_references_to_urn(tag)[0] == 1
    assert graph.get_tags(model("m")).tags == []
