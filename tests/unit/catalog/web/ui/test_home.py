"""The first page: the latest runs, failing tests, ingestions and tasks."""

import json
from dataclasses import replace

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.rest.operations import evaluate_stored
from mlcat_ingest.pipeline.report.catalog import RecipeListing, proposals_of, source_urn
from mlcat_ingest.pipeline.report.report import EntityCounts, Report
from support.catalog_store import group, model, put, statements
from support.names import HOSTILE
from support.pages import at, page


def add_run(store: Store, name: str, hour: int, status: str = "FINISHED", **metrics: str) -> str:
    return put(
        store,
        model(name),
        mlModelProperties={
            "name": name,
            "created": {"time": 1_700_000_000_000 + hour * 3_600_000},
            "groups": [group("churn")],
            "trainingMetrics": [{"name": key, "value": value} for key, value in metrics.items()],
            "customProperties": {"mlflow.status": status, "mlflow.duration_ms": "25175"},
        },
    )


def add_test(store: Store, name: str, operator: str = "exists") -> str:
    rules = {"property": "mlModelProperties.description", "operator": operator}
    text = json.dumps({"on": {"types": ["mlModel"]}, "rules": rules})
    info = {"name": name, "category": "ml", "definition": {"type": "JSON", "json": text}}
    return put(store, f"urn:li:test:{name}", testInfo=info)


def add_ingestion(store: Store, name: str, number: int = 0, refused: int = 0) -> None:
    start, counts = 1_700_000_000_000 + number * 60_000, EntityCounts(0, number, rejected=refused)
    report = Report(name, start, start + 2_500, f"{name}-{number}")
    report = replace(report, entities={"mlModel": counts})
    proposals = proposals_of(report, RecipeListing(("mlflow",), "rest", "1"))
    store.write([Write(p.entity_urn, p.aspect_name, p.aspect) for p in proposals])


def test_the_latest_runs_show_status_group_and_a_metric(store: Store) -> None:
    of_lisbon = {"path": [{"id": "lisbon"}]}
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn"}, browsePathsV2=of_lisbon)
    add_run(store, "old", 1, auc="0.9123456789", fit_time="3")
    add_run(store, "new", 2, "FAILED", auc="0.5", aaa="1", fit_time="2")
    add_run(store, "bare", 0)
    put(store, model("version"), mlModelProperties={"name": "no run"})
    put(store, add_run(store, "gone", 9), status={"removed": True})
    found = page(store, "/")
    assert (
        "Latest runs Name Status Group Metric Duration Created "
        "new FAILED lisbon / Churn auc 0.5 25 s 2023-11-15 00:13 UTC "
        "old FINISHED lisbon / Churn auc 0.912346 25 s 2023-11-14 23:13 UTC "
        "bare FINISHED lisbon / Churn 25 s 2023-11-14 22:13 UTC" in found.text
    )
    assert "no run" not in found.text.partition("Latest runs")[2]
    assert at(model("new")) in found.links
    assert at(group("churn")) in found.links


def test_the_first_page_shows_ten_runs(store: Store) -> None:
    for number in range(11):
        add_run(store, f"r{number}", number)
    shown = page(store, "/").text.partition("Latest runs")[2]
    assert " r10 FINISHED" in shown
    assert " r1 FINISHED" in shown
    assert " r0 FINISHED" not in shown


def test_failing_tests_are_shown_with_counts_the_most_failing_first(store: Store) -> None:
    one, none = add_run(store, "a", 1), add_run(store, "b", 2)
    put(store, model("c"), mlModelProperties={"description": "d"})
    few, passed = add_test(store, "few", "is_true"), add_test(store, "passed", "exists")
    evaluate_stored(store, [one], [passed], push=True)
    evaluate_stored(store, [one, none, model("c")], [few], push=True)
    found = page(store, "/")
    assert "Failing metadata tests Name Failing Passing few 3 0 passed 1 0" in found.text
    assert at(few, "?tab=failing") in found.links
    put(store, one, mlModelProperties={"description": "d"})
    evaluate_stored(store, [one], [passed], push=True)
    assert at(passed, "?tab=failing") not in page(store, "/").links


def test_without_activity_there_are_no_empty_tables(store: Store) -> None:
    add_test(store, "t")
    text = page(store, "/").text
    for heading in ("Latest runs", "Failing metadata tests", "Latest ingestions", "Index task"):
        assert heading not in text


def test_the_latest_ingestion_of_each_recipe(store: Store) -> None:
    add_ingestion(store, "prod", 1)
    add_ingestion(store, "nightly", 3)
    add_ingestion(store, "prod", 4, refused=1)
    found = page(store, "/")
    after = found.text.partition("prod 2023-11-14 22:17 UTC FAILURE 2.5 s 4 0 0 1")[2]
    assert "nightly 2023-11-14 22:16 UTC SUCCESS 2.5 s 3 0 0 0" in after
    assert found.links[at(source_urn("prod"))] == "prod"
    assert at("urn:li:dataHubExecutionRequest:prod-1") not in found.links
    for number in range(9):
        add_ingestion(store, f"r{number}")
    assert "All 11 ingestion sources" in page(store, "/").text


def test_the_first_page_takes_as_many_statements_however_much_there_is(store: Store) -> None:
    counts = set()
    for size in (12, 60):
        for number in range(size):
            urn = add_run(store, f"r{number}", number, auc="1")
            add_ingestion(store, f"recipe{number}")
            add_test(store, f"t{number}")
            evaluate_stored(store, [urn], None, push=True)
        with statements(store) as asked:
            page(store, "/")
        counts.add(len(asked))
    assert len(counts) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_texts(store: Store, name: str) -> None:
    text = HOSTILE[name].replace("\0", "")
    put(
        store,
        model("m"),
        mlModelProperties={
            "name": text,
            "groups": [group("g")],
            "trainingMetrics": [{"name": text, "value": text}],
            "customProperties": {"mlflow.status": text, "mlflow.duration_ms": text},
        },
    )
    put(store, group("g"), mlModelGroupProperties={"name": text})
    found = page(store, "/")
    assert found.tags.count("script") == 1
    assert "b" not in found.tags
    assert " ".join(text.split()) in found.text
