"""The report as the catalog keeps it: DataHub's shape, nothing secret, and never in the way."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mlcat_ingest
from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    MlcatError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.report.catalog import (
    MAX_TEXT,
    WARNINGS,
    RecipeListing,
    proposals_of,
    publish,
    source_urn,
)
from mlcat_ingest.pipeline.report.report import (
    FailedRecord,
    Report,
    TestVerdict,
    Verdict,
    failure_of,
)
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.fakes import FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

PACKAGE = Path(mlcat_ingest.__file__).parent
LISTING = RecipeListing(("mlflow",), "rest", "mlcat-ingest 1.2.3")
SOURCE = source_urn("prod")
GOOD = Report("prod", 1_700_000_000_000, 1_700_000_002_500, "prod-1", records=7, proposals_sent=9)
FAILED = replace(GOOD, failure=failure_of(SourceUnavailableError("it is gone")))


def result_of(report: Report) -> tuple[Proposal, dict[str, Any]]:
    *_, result = proposals_of(report, LISTING)
    return result, json.loads(result.aspect["structuredReport"]["serializedValue"])


def test_the_recipe_is_a_source_and_the_run_its_request() -> None:
    info, request, result = proposals_of(GOOD, LISTING)
    assert info.entity_urn == SOURCE
    assert info.aspect == {
        "name": "[CLI] mlflow [prod]",
        "type": "mlflow",
        "platform": "urn:li:dataPlatform:mlflow",
        "config": {
            "recipe": '{"pipeline_name": "prod", "source": {"type": "mlflow"}}',
            "version": "mlcat-ingest 1.2.3",
            "executorId": "__datahub_cli_",
        },
    }
    assert request.entity_urn == result.entity_urn == "urn:li:dataHubExecutionRequest:prod-1"
    assert request.aspect["source"] == {
        "type": "CLI_INGESTION_SOURCE",
        "ingestionSource": SOURCE,
    }
    assert request.aspect["requestedAt"] == result.aspect["startTimeMs"] == GOOD.started_at_ms
    assert (result.aspect["status"], result.aspect["durationMs"]) == ("SUCCESS", 2_500)
    assert "prod: everything arrived" in result.aspect["report"]


def test_the_source_is_the_same_in_every_run_and_a_run_is_its_own() -> None:
    sink = FakeSink(place="fake://catalog")
    reports = [ingest(sink), ingest(sink)]
    first, second = (list(proposals_of(report, LISTING)) for report in reports)
    assert first[0] == second[0]
    assert first[1].entity_urn != second[1].entity_urn
    assert reports[0].run_id.startswith("prod-20")
    assert source_urn("other") != SOURCE


def test_aspects_of_a_run_name_the_run_that_is_listed() -> None:
    sink = FakeSink(place="fake://catalog")
    report = ingest(sink)
    assert sink.system_metadata == {
        "runId": report.run_id,
        "lastObserved": report.started_at_ms,
        "pipelineName": "prod",
    }
    assert sink.writes[-1][2].entity_urn == f"urn:li:dataHubExecutionRequest:{report.run_id}"


@pytest.mark.parametrize(
    ("report", "title"),
    [
        (FAILED, "SourceUnavailableError"),
        (replace(GOOD, gate=Verdict("x", (TestVerdict("t", failing=1),))), "metadata tests"),
    ],
)
def test_a_run_that_is_not_green_is_a_failure(report: Report, title: str) -> None:
    result, data = result_of(report)
    assert result.aspect["status"] == "FAILURE"
    assert title in json.dumps(data["source"]["report"]["failures"])


def test_what_was_refused_and_noted_is_listed() -> None:
    refused = FailedRecord("urn:x", "422 no")
    report = replace(
        GOOD,
        failed_records=1,
        failed_examples=(FailedRecord("run 7", "no id"),),
        rejected_examples=(refused,),
        dropped={"mlModel: subTypes": 1_200},
        notes={"truncated": 4, "feature_unknown": 1},
        note_examples={"truncated": ("a", "b", "c", "d"), "feature_unknown": ("x",)},
    )
    result, data = result_of(report)
    assert result.aspect["status"] == "FAILURE"
    assert data["source"]["report"]["warnings"] == [
        {"title": "not usable", "message": "no id", "context": ["run 7"]},
        {"title": "feature_unknown", "message": "1 time", "context": ["x"]},
    ]
    assert data["source"]["report"]["infos"] == [
        {"title": "truncated", "message": "4 times", "context": ["a", "b", "c"]},
    ]
    assert data["sink"]["report"]["failures"] == [
        {"title": "refused by the catalog", "message": "422 no", "context": ["urn:x"]},
        {
            "title": "dropped by the catalog",
            "message": "of 1,200",
            "context": ["mlModel: subTypes"],
        },
    ]


def test_a_long_report_is_cut_and_stays_json() -> None:
    long = replace(GOOD, failed_records=1, failed_examples=(FailedRecord("r", "x" * MAX_TEXT),))
    result, data = result_of(long)
    assert len(result.aspect["report"]) == MAX_TEXT
    assert result.aspect["report"].startswith("prod: finished")
    assert data["source"]["report"]["records"] == 7


def test_every_aspect_fits_the_sdks_schema() -> None:
    pytest.importorskip("datahub")
    from support.sdk_schema import assert_valid_for_sdk

    for report in (GOOD, FAILED):
        for proposal in proposals_of(report, RecipeListing(("mlflow", "feast"), "embedded", "v")):
            assert_valid_for_sdk(proposal)


@pytest.mark.parametrize(
    "report",
    [
        replace(FAILED, error=CatalogUnavailableError("down")),
        replace(GOOD, interrupted=True, error=KeyboardInterrupt()),
    ],
)
def test_a_catalog_that_is_out_of_reach_is_not_asked(report: Report) -> None:
    sink = FakeSink()
    assert publish(report, LISTING, sink) is None
    assert sink.writes == []


def ingest(sink: FakeSink, source: FakeSource | None = None) -> Report:
    entity = Entity(model_urn("a"), {"mlModelProperties": {"name": "a"}})
    made = source or FakeSource([[entity]])
    return PipelineRun([made], sink, RunOptions(a_recipe("prod"), listing=LISTING)).execute()


def test_a_run_is_listed_in_one_write_at_its_end() -> None:
    sink = FakeSink(place="fake://catalog")
    assert ingest(sink).exit_code == 0
    *_, last = sink.writes
    assert [one.aspect_name for one in last] == [
        "dataHubIngestionSourceInfo",
        "dataHubExecutionRequestInput",
        "dataHubExecutionRequestResult",
    ]
    assert '"created": 1' in last[2].aspect["structuredReport"]["serializedValue"]
    writes = len(sink.writes)
    assert ingest(sink).entities["mlModel"].unchanged == 1
    assert len(sink.writes) == writes + 1


def test_a_failed_run_is_listed_too() -> None:
    sink = FakeSink(place="fake://catalog")
    assert ingest(sink, FakeSource(error=SourceUnavailableError("gone"))).exit_code == 1
    assert sink.writes[-1][2].aspect["status"] == "FAILURE"


def test_a_sink_that_keeps_nothing_gets_no_report() -> None:
    sink = FakeSink()
    ingest(sink)
    assert [one.aspect_name for write in sink.writes for one in write] == ["mlModelProperties"]


def test_every_warning_is_a_note_that_something_makes() -> None:
    source = "".join(one.read_text() for one in PACKAGE.rglob("*.py") if one.name != "catalog.py")
    assert {kind for kind in WARNINGS if f'"{kind}"' not in source} == set()


@pytest.mark.parametrize("error", [None, CatalogRequestError("no, says it", status=400)])
def test_a_catalog_that_does_not_take_it_costs_a_note(error: MlcatError | None) -> None:
    def refuse(proposals: object) -> None:
        if error is not None and "dataHub" in str(proposals):
            raise error

    sink = FakeSink(place="fake://catalog", before_write=refuse, refuse=[SOURCE])
    report = ingest(sink)
    assert report.exit_code == 0
    [example] = report.note_examples["run_not_listed"]
    assert example == ("not liked" if error is None else "no, says it")
