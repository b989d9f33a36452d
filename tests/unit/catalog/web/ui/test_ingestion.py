"""The pages of ingestion runs and recipes, from real reports and from aspects of any shape."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.pipeline.report.catalog import RecipeListing, proposals_of, source_urn
from mlcat_ingest.pipeline.report.report import (
    EntityCounts,
    EvaluationSummary,
    FailedRecord,
    PassSummary,
    Report,
    TestVerdict,
    Verdict,
    failure_of,
)
from support.catalog_store import group, model, put, statements
from support.names import HOSTILE
from support.pages import at, page

RUNS, RECIPES = "/kind/dataHubExecutionRequest", "/kind/dataHubIngestionSource"
TEST = "urn:li:test:described"
KEY = 'mlflow:e25a:de"f\\ault'
LISTING = RecipeListing(("mlflow",), "rest", "mlcat-ingest 1.2.3")
REPORT = Report(
    "churn",
    1_700_000_000_000,
    1_700_000_065_000,
    "churn-1",
    records=7,
    proposals_sent=9,
    passes=(PassSummary(KEY, True, "full pass (first run)", label="MLflow at http://m"),),
    entities={
        "mlModel": EntityCounts(
            created=1_200,
            updated=34,
            unchanged=56,
            removed=7,
            still_removed=3,
            left_out=8,
            rejected=2,
        ),
        "mlModelGroup": EntityCounts(created=1),
    },
    changed_groups=5,
    changed_group_urns=(group("churn"),),
    evaluation=EvaluationSummary(evaluated=9, passing=4, failing=3, failing_tests={TEST: 3}),
    rejected_examples=(FailedRecord(model("bad"), "too large"),),
    failed_examples=(FailedRecord("run 8", "no name"),),
    notes={"feature_unknown": 2, "dataset_unresolved": 7},
    note_examples={"feature_unknown": (f"{model('m')} forest: rides:rate",)},
)


def write(store: Store, report: Report) -> str:
    """Write the report of a run as the connector does, and return the URN of the run."""
    proposals = [*proposals_of(report, LISTING)]
    store.write([Write(p.entity_urn, p.aspect_name, p.aspect) for p in proposals])
    return proposals[-1].entity_urn


def run(urn_part: str) -> str:
    return f"urn:li:dataHubExecutionRequest:{urn_part}"


def test_a_run_is_shown_in_words(store: Store) -> None:
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn"})
    info = {"name": "Described", "category": "c", "definition": {"type": "JSON", "json": "{}"}}
    put(store, TEST, testInfo=info)
    urn = write(store, REPORT)
    found = page(store, at(urn))
    assert "churn 2023-11-14 22:13 UTC Ingestion run" in found.text
    assert "FAILURE churn: finished after 65.0 s, but not everything arrived" in found.text
    assert found.links[at(source_urn("churn"))] == "churn"
    assert "Started 2023-11-14 22:13 UTC Duration 1 min 5 s" in found.text
    assert "Records read 7" in found.text
    assert "Results of metadata tests 4 passing, 3 failing" in found.text
    assert (
        "Created Updated Unchanged Removed Still removed Left out Refused "
        "Models 1,200 34 56 7 3 8 2" in found.text
    )
    assert found.links[at(group("churn"))] == "Churn"
    assert "and 4 more" in found.text
    assert "Described fails on 3" in found.text
    assert f"Refused by the catalog refused by the catalog: too large {model('bad')}" in found.text
    assert "Warnings not usable: no name run 8 feature unknown: 2 times forest: rides:rate" in (
        found.text
    )
    assert "Notes dataset unresolved: 7 times" in found.text
    assert at(model("m")) in found.links
    assert "MLflow at http://m : full pass (first run)" in found.text


def test_a_run_that_the_gate_failed_says_so_and_what_fails_beside_what_is_new(
    store: Store,
) -> None:
    verdict = Verdict("*", (TestVerdict(TEST, passing=3, failing=26),))
    quiet = replace(REPORT, evaluation=EvaluationSummary(), gate=verdict)
    page_of_run = page(store, at(write(store, quiet)))
    assert "FAILURE by the gate" in page_of_run.text
    assert "26 failing, none new" in page(store, RUNS).text
    newer = replace(verdict, tests=(TestVerdict(TEST, failing=26, newly_failing=2),))
    write(store, replace(quiet, run_id="churn-2", gate=newer))
    assert "26 failing, 2 new" in page(store, RUNS).text


def test_a_run_that_evaluated_nothing_does_not_say_that_nothing_fails(store: Store) -> None:
    write(store, replace(REPORT, evaluation=EvaluationSummary()))
    found = page(store, RUNS).text
    assert "failing" not in found
    assert "by the gate" not in found


def test_a_failure_says_its_cause(store: Store) -> None:
    failed = replace(REPORT, failure=failure_of(SourceUnavailableError("no answer from MLflow")))
    found = page(store, at(write(store, failed)))
    assert "Failures SourceUnavailableError: no answer from MLflow" in found.text


def test_a_run_leads_to_the_entities_of_its_sources(store: Store) -> None:
    custom = {"mlcat.source": KEY}
    put(store, model("m"), mlModelProperties={"customProperties": custom})
    put(store, model("other"), mlModelProperties={"customProperties": {"mlcat.source": "x"}})
    urn = write(store, REPORT)
    for shown in (urn, source_urn("churn")):
        links = page(store, at(shown)).links
        (target,) = [link for link in links if link.startswith("/search?q=")]
        found = page(store, target)
        assert "Search 1" in found.text
        assert at(model("m")) in found.links


def test_the_lists_of_runs_and_recipes(store: Store) -> None:
    good = replace(
        REPORT,
        run_id="churn-2",
        started_at_ms=1_700_003_600_000,
        finished_at_ms=1_700_003_602_500,
        rejected_examples=(),
        failed_examples=(),
        entities={"mlModel": EntityCounts(unchanged=9)},
    )
    first, second = write(store, REPORT), write(store, good)
    put(store, "urn:li:dataHubIngestionSource:new", dataHubIngestionSourceInfo={"name": "New"})
    runs = page(store, RUNS)
    assert "Ingestion runs 2" in runs.text
    newest = "churn 2023-11-14 23:13 UTC SUCCESS 2.5 s 0 9 0 0 3 failing"
    oldest = "churn 2023-11-14 22:13 UTC FAILURE 1 min 5 s 1,235 56 7 2 3 failing"
    assert f"{newest} {oldest}" in runs.text
    assert {at(first), at(second), at(source_urn("churn"))} <= runs.links.keys()
    recipes = page(store, RECIPES)
    assert "Ingestion sources 2" in recipes.text
    unknown = " ".join("\N{EN DASH}" * 5)
    assert f"{newest} New no run yet {unknown} Served" in recipes.text
    recipe = page(store, at(source_urn("churn")))
    assert "churn Ingestion source" in recipe.text
    assert "Ingestion runs 2 History Type mlflow Version mlcat-ingest 1.2.3" in recipe.text
    assert recipe.text.index("23:13 UTC") < recipe.text.index("22:13 UTC")
    assert "Used by" not in recipe.text


def test_runs_have_pages(store: Store) -> None:
    for number in range(51):
        write(store, replace(REPORT, run_id=f"churn-{number}"))
    assert at(run("churn-0")) not in page(store, RUNS).links
    assert at(run("churn-0")) in page(store, f"{RUNS}?start=50").links
    recipe = source_urn("churn")
    assert at(recipe, "?start=50") in page(store, at(recipe)).links
    assert at(run("churn-0")) in page(store, at(recipe, "?start=50")).links


def test_the_lists_take_as_many_statements_however_long_they_are(store: Store) -> None:
    write(store, REPORT)
    counts: dict[str, int] = {}
    for names in (("one",), tuple(f"recipe{number}" for number in range(20))):
        for name in names:
            write(store, replace(REPORT, name=name, run_id=name))
        for target in (RUNS, RECIPES, at(source_urn("churn"))):
            with statements(store) as asked:
                page(store, target)
            assert counts.setdefault(target, len(asked)) == len(asked)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_notes_stay_texts(store: Store, name: str) -> None:
    text = HOSTILE[name].replace("\0", "")
    report = replace(
        REPORT,
        name=text,
        notes={text: 1},
        note_examples={text: (text,)},
        rejected_examples=(FailedRecord(text, text),),
        passes=(PassSummary(text, True, text, label=text),),
    )
    urn = write(store, report)
    for target in (at(urn), RUNS, RECIPES, at(source_urn(text))):
        found = page(store, target)
        assert found.tags.count("script") == 1
        assert "b" not in found.tags
    assert " ".join(text.split()) in page(store, at(urn)).text


WRONG: list[Any] = [None, 1, 2.5, True, "x", [], ["x"], {}, {"x": "y"}, 2**62, 1e300, "<b>x</b>"]


@pytest.mark.parametrize("value", WRONG, ids=str)
def test_fields_of_other_types_are_no_error(store: Store, value: Any) -> None:
    """Every field of the aspects and of the report, at every depth, holds the value once."""
    report = json.loads(
        [*proposals_of(REPORT, LISTING)][-1].aspect["structuredReport"]["serializedValue"]
    )
    request = [*proposals_of(REPORT, LISTING)][1].aspect
    result = {"status": "SUCCESS", "startTimeMs": 1, "durationMs": 2, "report": "text"}
    recipe, of_request = "dataHubIngestionSourceInfo", "dataHubExecutionRequestInput"
    of_result = "dataHubExecutionRequestResult"
    writes = [Write(source_urn("churn"), recipe, {})]
    for number, changed in enumerate(changes(request, value)):
        # A wrong reference is refused.
        if not validate_aspect("dataHubExecutionRequest", of_request, changed):
            writes.append(Write(run(f"request{number}"), of_request, changed))
    for number, changed in enumerate(changes(report, value)):
        whole = {**result, "structuredReport": {"serializedValue": json.dumps(changed)}}
        urn = run(f"report{number}")
        writes += [Write(urn, of_request, request), Write(urn, of_result, whole)]
    for number, changed in enumerate(changes({**result, "structuredReport": {}}, value)):
        writes.append(Write(run(f"result{number}"), of_result, changed))
    info = {"name": "n", "type": "t", "config": {"version": "1"}, "schedule": {"interval": "1"}}
    recipes = [
        f"urn:li:dataHubIngestionSource:s{number}" for number in range(len(changes(info, 0)))
    ]
    writes += map(Write, recipes, repeat(recipe), changes(info, value))
    store.write(writes)
    for urn in recipes:
        page(store, at(urn))
    urns = store.list_urns("dataHubExecutionRequest", 0, 1_000)
    assert urns.total > 100
    for start in range(0, urns.total, 50):
        page(store, f"{RUNS}?start={start}")
    for urn in urns.urns:
        page(store, at(urn))
    page(store, RECIPES)


def changes(value: Mapping[str, Any], new: Any) -> list[dict[str, Any]]:
    """Return `value` with `new` in the place of each of its fields, and of each within."""
    changed: list[dict[str, Any]] = []
    for key, inner in value.items():
        changed.append({**value, key: new})
        if isinstance(inner, dict):
            changed += [{**value, key: within} for within in changes(inner, new)]
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            changed += [{**value, key: [within]} for within in changes(inner[0], new)]
    return changed


def test_what_is_unknown_is_shown_as_it_is(store: Store) -> None:
    put(
        store,
        run("odd"),
        dataHubExecutionRequestResult={
            "status": "<b>NEW</b>",
            "structuredReport": {
                "serializedValue": json.dumps(
                    {"source": {"report": {"failures": ["plain", {"code": 7}]}}}
                )
            },
        },
    )
    found = page(store, at(run("odd")))
    assert "<b>NEW</b>" in found.text
    assert 'Failures plain {"code":7}' in found.text
    put(store, run("empty"), dataHubExecutionRequestInput={})
    assert "no result yet" in page(store, at(run("empty"))).text
    assert quote(run("empty"), safe="") in str(page(store, RUNS).links)
