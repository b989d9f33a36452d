"""`when` without a record: what the kept versions of a group prove, on both kinds of services."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support.fakes import group_urn
from support.sdk_warnings import SDK_WARNINGS
from support.small_store import SmallStore

pytestmark = SDK_WARNINGS

mcp = pytest.importorskip("datahub.emitter.mcp")
sdk = pytest.importorskip("datahub.ingestion.graph.client")
schema = pytest.importorskip("datahub.metadata.schema_classes")

MODEL = group_urn("registered:churn")


def write(store: SmallStore, aliases: dict[str, str], recipe: str | None = None) -> None:
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=store.server))
    custom = {"mlflow.registered_model": "churn", "mlflow.aliases": json.dumps(aliases)}
    properties = schema.MLModelGroupPropertiesClass(name="churn", customProperties=custom)
    written_by = schema.SystemMetadataClass(runId="r-1", pipelineName=recipe)
    proposal = mcp.MetadataChangeProposalWrapper(
        entityUrn=MODEL, aspect=properties, systemMetadata=written_by
    )
    graph.emit(proposal)


def test_a_version_that_a_recipe_wrote_proves_what_it_had_read_by_then(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    def when(*words: str, code: int = 0) -> Any:
        capfd.readouterr()
        words = ("when", *words, "--json", "--server", str(store.server), "--token", "")
        assert call([*words]) == code
        out, error = capfd.readouterr()
        return json.loads(out) if out else error

    write(store, {"champion": "1"}, "prod")
    write(store, {"champion": "1", "next": "4"})
    write(store, {"champion": "2", "next": "4"}, "prod")
    began = datetime.now(UTC)
    found = when("champion", "of", MODEL)
    assert found["certainty"] == "interval"
    held = [found["before"], *found["across"]]
    assert [(one["version"], one["begin_ms"], one["by"]) for one in held] == [
        ("2", 0, "version"),
        ("1", 0, "version"),
    ]
    written_ms = began.timestamp() * 1000
    assert all(written_ms - 60_000 < one["end_ms"] <= written_ms + 1_000 for one in held)
    yesterday = (began - timedelta(days=1)).isoformat()
    early = when("champion", "of", MODEL, "--on", yesterday, code=1)
    assert (early["certainty"], early["before"]) == ("not known", None)
    # Nobody knows what the writer without a name had read, and the recipe only carried it on.
    assert "it is at version 4 now" in when("next", "of", MODEL, code=1)
    assert "no history of alias 'Production'" in when("Production", "of", MODEL, code=1)
