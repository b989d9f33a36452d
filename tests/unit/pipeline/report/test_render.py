"""The report's forms."""

import json
from dataclasses import replace

import pytest

from mlcat_ingest.errors import LimitError, SourceUnavailableError
from mlcat_ingest.pipeline.report.render import as_data, as_json, as_text
from mlcat_ingest.pipeline.report.report import (
    COUNTERS,
    DanglingDataset,
    EntityCounts,
    EvaluationSummary,
    FailedRecord,
    LineageSummary,
    PassSummary,
    Report,
    failure_of,
)

GOOD = Report(
    name="prod",
    started_at_ms=1_000,
    finished_at_ms=4_500,
    catalog="http://catalog:8080",
    passes=(PassSummary("mlflow:0123:default", full=False, why="changes since the last run"),),
    records=1_201,
    entities={
        "mlModel": EntityCounts(read=1_200, created=1_000, unchanged=200),
        "mlModelGroup": EntityCounts(read=1, updated=1),
    },
    proposals_sent=2_001,
    source_requests=5,
    catalog_requests=28,
    evaluation=EvaluationSummary(1_001, 2_000, 3, {"urn:li:test:a": 3}),
)


def test_a_run_where_everything_arrived() -> None:
    assert as_text(GOOD).splitlines() == [
        "prod: everything arrived after 3.5 s",
        "  source       mlflow:0123:default: changes since the last run",
        "  records      1,201 read → http://catalog:8080",
        "  mlModel      1,000 created, 0 updated, 200 unchanged",
        "  mlModelGroup 0 created, 1 updated, 0 unchanged",
        "  proposals    2,001 sent",
        "  tests        1,001 entities evaluated: 2,000 results passing, 3 failing",
        "    urn:li:test:a fails on 3",
        "  requests     5 to the source, 28 to the catalog",
    ]


@pytest.mark.parametrize("kind", ["not_administrator", "nothing_listed", "unlisted_kept"])
def test_a_source_that_may_hold_more_than_it_listed(kind: str) -> None:
    lines = as_text(replace(GOOD, notes={kind: 2}, note_examples={kind: ("why",)})).splitlines()
    assert lines[0] == "prod: everything that was listed arrived after 3.5 s"
    assert lines[-3:-1] == [f"  note         {kind}: 2", "    why"]


def test_lineage_that_joins_and_that_dangles() -> None:
    dangling = (DanglingDataset("urn:a", 1_200, ("urn:b", "urn:c")), DanglingDataset("urn:d", 1))
    report = replace(GOOD, lineage=LineageSummary(1_041, 1_037, dangling))
    assert as_text(report).splitlines()[6:10] == [
        "  lineage      1,037 of 1,041 datasets of models are in the catalog",
        "    missing: urn:a, used by 1,200 models; nearest: urn:b, urn:c",
        "    missing: urn:d, used by 1 model",
        "    … and 2 more",
    ]
    reported = json.loads(as_json(report))["lineage"]
    assert (reported["datasets"], reported["in_catalog"], reported["beyond"]) == (
        1_041,
        1_037,
        False,
    )
    assert reported["dangling"][0] == {
        "urn": "urn:a",
        "models": 1_200,
        "nearest": ["urn:b", "urn:c"],
    }
    assert "more were not looked up" in as_text(
        replace(GOOD, lineage=LineageSummary(2, 2, beyond=True))
    )
    assert "lineage      not checked: gone" in as_text(
        replace(GOOD, lineage=LineageSummary(not_checked="gone"))
    )


def test_a_run_where_some_did_not_arrive() -> None:
    report = replace(
        GOOD,
        entities={"mlModel": EntityCounts(read=2, created=1, rejected=1)},
        failed_records=12,
        failed_examples=(FailedRecord("run 7", "no id"),),
        rejected_examples=(FailedRecord("urn:x", "422 no"),),
        notes={"truncated": 4},
        note_examples={"truncated": ("a", "b", "c", "d")},
        evaluation=EvaluationSummary(not_evaluated="403"),
    )
    assert report.exit_code == 4
    lines = as_text(report).splitlines()
    assert lines[0] == "prod: finished after 3.5 s, but not everything arrived"
    assert "  mlModel      1 created, 0 updated, 0 unchanged, 1 refused" in lines
    assert lines[5:-1] == [
        "  tests        not evaluated: 403",
        "  note         truncated: 4",
        "    a",
        "    b",
        "    c",
        "  not usable   12",
        "    run 7: no id",
        "    … and 11 more",
        "  refused      1",
        "    urn:x: 422 no",
    ]


def test_what_the_catalog_dropped_is_named() -> None:
    report = replace(GOOD, dropped={"mlModel: subTypes": 1_200, "urn:x: the entity": 1})
    lines = as_text(report).splitlines()
    assert report.exit_code == 4
    assert lines[0] == "prod: finished after 3.5 s, but not everything arrived"
    how = "acknowledged by the catalog, but not stored"
    assert lines[-3:-1] == [
        f"  dropped      mlModel: subTypes, of 1,200 entities: {how}",
        f"  dropped      urn:x: the entity, of 1 entity: {how}",
    ]
    assert json.loads(as_json(report))["dropped"] == dict(report.dropped)


def test_what_the_merge_could_not_tell_apart_is_reported() -> None:
    report = replace(
        GOOD,
        entities={"mlModel": EntityCounts(read=3, updated=1, removed=2)},
        without_base=1_200,
        kept_aspects=2,
    )
    assert as_text(report).splitlines()[3:7] == [
        "  mlModel      0 created, 1 updated, 0 unchanged, 2 removed",
        "  proposals    2,001 sent",
        "  merge        1,200 entities existed before this recipe: their entries were kept",
        "  merge        2 aspects kept: they have entries of others",
    ]
    assert json.loads(as_json(report))["without_base"] == 1_200


def test_a_run_that_failed() -> None:
    failure = failure_of(SourceUnavailableError("MLflow is gone", hint="start it"))
    report = replace(GOOD, failure=failure, catalog="", passes=())
    assert report.exit_code == 1
    assert as_text(report).startswith(
        "prod: failed after 3.5 s: MLflow is gone (start it)\n  records      1,201 read\n"
    )
    assert as_text(report, cause=False).startswith(
        "prod: failed after 3.5 s; the counted writes were acknowledged\n"
    )
    assert as_text(replace(report, entities={}), cause=False).startswith(
        "prod: failed after 3.5 s; nothing was acknowledged\n"
    )


def test_a_run_that_was_interrupted() -> None:
    report = replace(GOOD, interrupted=True)
    assert report.exit_code == 130
    assert as_text(report).startswith("prod: interrupted after 3.5 s; ")


def test_a_limit_is_the_recipes_fault() -> None:
    assert replace(GOOD, failure=failure_of(LimitError("too many"))).exit_code == 2


def test_json_holds_every_number() -> None:
    data = json.loads(as_json(replace(GOOD, failure=failure_of(LimitError("too many")))))
    assert data["exit_code"] == 2
    assert data["duration_s"] == 3.5
    assert data["passes"][0]["full"] is False
    assert data["entities"]["mlModel"] == {
        "read": 1_200,
        "created": 1_000,
        "updated": 0,
        "removed": 0,
        "unchanged": 200,
        "still_removed": 0,
        "left_out": 0,
        "rejected": 0,
    }
    assert data["evaluation"]["failing_tests"] == {"urn:li:test:a": 3}
    assert data["failure"]["message"] == "too many"
    assert as_json(GOOD).endswith("}\n")
    assert json.loads(as_json(GOOD))["failure"] is None


def test_keys_of_the_data_that_are_no_counters() -> None:
    assert [key for key in as_data(GOOD) if key not in COUNTERS] == [
        *("name", "finished", "exit_code", "started_at_ms", "finished_at_ms", "duration_s"),
        "run_id",
        *("catalog", "passes", "entities", "changed_groups", "changed_group_urns", "group_page"),
        *("dead_letter_file", "failed_examples", "rejected", "rejected_examples"),
        *("notes", "note_examples", "lineage", "features", "evaluation", "gate", "hooks"),
        *("failure", "interrupted"),
    ]
    assert as_data(replace(GOOD, finished=False))["exit_code"] is None


def test_entities_written_are_those_created_and_updated() -> None:
    assert EntityCounts(read=9, created=2, updated=3, unchanged=4).written == 5
