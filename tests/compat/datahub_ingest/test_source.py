"""The source `mlcat` in DataHub's own pipeline, in the process of the test."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from datahub.ingestion.run.pipeline import Pipeline, PipelineInitError, PipelineStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.datahub.source import MlcatReport
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG
from mlcat_ingest.pipeline.report.report import EntityCounts, FailedRecord, Report
from support.catalog_server import RunningCatalog, running_catalog
from support.mlflow_tables import insert
from support.small_store import A, B, SmallStore, make

MLFLOW = {"type": "mlflow", "config": {"tracking_uri": "sqlite:///mlflow.db"}}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallStore:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATAHUB_SKIP_CONFIG", "true")
    monkeypatch.setenv("DATAHUB_LOCAL_FILES", str(tmp_path))
    monkeypatch.setattr(Pipeline, "_warn_old_cli_version", lambda _: None)
    return make(tmp_path)


@pytest.fixture
def catalog(store: SmallStore) -> Iterator[RunningCatalog]:
    with running_catalog(store.catalog) as running:
        yield running


def made(server: str, config: dict[str, Any] | None = None, **more: Any) -> Pipeline:
    options = {name: more.pop(name) for name in ("preview_mode", "dry_run") if name in more}
    recipe = {
        "pipeline_name": "prod",
        "source": {"type": "mlcat", "config": {"source": MLFLOW} | (config or {})},
        "sink": {"type": "datahub-rest", "config": {"server": server}},
    }
    return Pipeline.create(recipe | more, no_progress=True, report_to=None, **options)


def report_of(pipeline: Pipeline) -> MlcatReport:
    pipeline.run()
    report = pipeline.source.get_report()
    assert isinstance(report, MlcatReport)
    return report


def texts(entries: Any) -> list[tuple[str, str, list[str]]]:
    return [(one.title, one.message, list(one.context)) for one in entries]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"transformers": [{"type": "mark_dataset_status", "config": {"removed": False}}]}, "enri"),
        ({"sink": {"type": "console"}}, "cannot write to the sink `console`"),
        ({"preview_mode": True}, "has no `--preview`"),
        ({"pipeline_name": None}, "has no `pipeline_name`"),
        ({"config": {"sink": {"type": "file"}}}, "source.config: sink: is `sink`, beside `source`"),
        ({"config": {"merg": {}}}, "merg: is not a known key; did you mean `merge`?"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(
    catalog: RunningCatalog, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(
        PipelineInitError, match=r"Failed to configure the source \(mlcat\)"
    ) as error:
        made(catalog.url, **given)
    assert sentence in str(error.value)


def test_the_name_may_be_the_urn_that_datahubs_pages_give(catalog: RunningCatalog) -> None:
    urn = "urn:li:dataHubIngestionSource:0e5d4f2c-5a8e-4d0c-b3a1-4b6b0a0a0a0a"
    assert not report_of(made(catalog.url, pipeline_name=urn)).failures
    stored = catalog.store.get_many([A], ["mlModelProperties"])[A]["mlModelProperties"].value
    assert f"mlcat.applied.{urn}" in stored["customProperties"]
    assert (
        report_of(made(catalog.url, pipeline_name=urn))
        .entities.get("mlModel", {})
        .get("created", 0)
        == 0
    )


def test_values_are_not_expanded_a_second_time(catalog: RunningCatalog) -> None:
    rules = [{"match": {"entity": "mlModel"}, "add_tags": ["urn:li:tag:${HOME}"]}]
    assert not report_of(made(catalog.url, {"enrich": rules})).failures
    tags = catalog.store.get_many([A], ["globalTags"])[A]["globalTags"].value["tags"]
    assert [one["tag"] for one in tags] == ["urn:li:tag:${HOME}"]


def test_a_dry_run_writes_nothing_and_counts(catalog: RunningCatalog) -> None:
    report = report_of(made(catalog.url, dry_run=True))
    assert report.entities["mlModel"]["created"] == 2
    assert catalog.store.list_urns("mlModel").total == 0


def test_without_a_sink_it_is_the_server_of_the_environment(
    store: SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_catalog(store.catalog, token="right") as catalog:
        monkeypatch.setenv("DATAHUB_GMS_URL", catalog.url)
        monkeypatch.setenv("DATAHUB_GMS_TOKEN", "right")
        # It belongs to another server.
        monkeypatch.setenv("MLCAT_TOKEN", "wrong")
        report = report_of(made("", sink=None))
        assert not report.failures
        assert catalog.store.exists([A, B]) == {A, B}


def test_datahubs_own_services_sign_in_by_their_system_client(
    store: SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAHUB_SYSTEM_CLIENT_ID", "__datahub_system")
    monkeypatch.setenv("DATAHUB_SYSTEM_CLIENT_SECRET", "of-the-system")
    seen: list[bytes | None] = []

    def around(app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                seen.append(dict(scope["headers"]).get(b"authorization"))
            await app(scope, receive, send)

        return watched

    with running_catalog(store.catalog, around=around) as catalog:
        assert not report_of(made(catalog.url)).failures
    assert set(seen) == {b"Basic __datahub_system:of-the-system"}


def test_a_provider_of_tokens_is_refused(catalog: RunningCatalog) -> None:
    auth = {"type": "static", "config": {"token": "secret"}}
    sink = {"type": "datahub-rest", "config": {"server": catalog.url, "auth": auth}}
    with pytest.raises(PipelineInitError, match="cannot sign in to DataHub by `auth`"):
        made(catalog.url, sink=sink)


def test_what_did_not_arrive_is_a_failure(catalog: RunningCatalog) -> None:
    pipeline = made(catalog.url, {"limits": {"max_new_entities": 1}})
    report = report_of(pipeline)
    ((title, message, _),) = texts(report.failures)
    assert title == "LimitError"
    assert "max_new_entities" in message
    assert pipeline.pretty_print_summary() == 1


def test_each_loss_is_a_failure() -> None:
    report = MlcatReport()
    report.take(
        Report(
            name="prod",
            started_at_ms=0,
            finished_at_ms=1,
            entities={"mlModel": EntityCounts(read=2, rejected=1)},
            failed_records=1,
            failed_examples=(FailedRecord("run 7", "no id"),),
            rejected_examples=(FailedRecord(A, "too large"),),
            dropped={"subTypes": 1_000},
        )
    )
    assert texts(report.failures) == [
        ("not usable", "no id", ["run 7"]),
        ("refused by the catalog", "too large", [A]),
        ("dropped by the catalog", "of 1,000", ["subTypes"]),
    ]
    # DataHub's pages take the number of entities from these.
    report.compute_stats()
    assert report.aspects == {"mlModel": {"mlModelProperties": 2}}
    assert report.aspects_by_subtypes_full_count == {
        "mlModel": {"unknown": {"mlModelProperties": 2}}
    }


def test_notes_that_need_an_action_are_warnings(store: SmallStore, catalog: RunningCatalog) -> None:
    insert(store.mlflow, "tags", [{"run_uuid": "a", "key": TRAINING_JOB_TAG, "value": "nonsense"}])
    insert(
        store.mlflow, "tags", [{"run_uuid": "b", "key": "mlflow.log-model.history", "value": "["}]
    )
    pipeline = made(catalog.url)
    report = report_of(pipeline)
    assert not report.failures
    assert [title for title, *_ in texts(report.warnings)] == ["training_job_invalid"]
    ((title, message, (context,)),) = texts(report.infos)
    assert (title, message) == ("unreadable_tag", "1 time")
    assert B in context
    assert pipeline.pretty_print_summary() == 0


def test_sigterm_cancels_the_run(store: SmallStore) -> None:
    def around(app: ASGIApp) -> ASGIApp:
        async def stopping(scope: Scope, receive: Receive, send: Send) -> None:
            if b"ingestProposal" in scope.get("query_string", b""):
                os.kill(os.getpid(), signal.SIGTERM)
            await app(scope, receive, send)

        return stopping

    with running_catalog(store.catalog, around=around) as catalog:
        pipeline = made(catalog.url)
        with pytest.raises(KeyboardInterrupt):
            pipeline.run()
    assert pipeline.final_status is PipelineStatus.CANCELLED
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_it_runs_in_any_thread(catalog: RunningCatalog) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(lambda: report_of(made(catalog.url))).result().failures
