"""Comparison of single entities: limits and cuts are left out, everything else is named."""

from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import LIMITS, JoinedRun
from mlcat_ingest.sources.mlflow.values.records import Experiment, Metric, Run
from mlcat_ingest.workflows.verify_entities import EntityComparison
from mlcat_ingest.workflows.verify_result import KEPT, SHOWN, Discrepancy, VerifyResult
from support.fakes import model_urn
from support.mlflow_records import a_scope

MODEL = "mlModelProperties"
SCOPE = a_scope()
EXPERIMENT = Experiment("1", "churn")


def run(**facts: Any) -> Run:
    return Run("r1", EXPERIMENT.experiment_id, **facts)


def model_of(record: Run) -> Entity:
    (model,) = map_record(JoinedRun(SCOPE, record, EXPERIMENT))
    return model


def compare(record: Run, stored: Entity) -> VerifyResult:
    """Return what comes of comparing a run with a model."""
    result = VerifyResult("night")
    held = {MODEL: StoredAspect(stored.aspects[MODEL])}
    entity = EntityComparison(result, stored.urn, MODEL, held)
    assert entity.is_live("run", "r1")
    entity.params(record.params)
    entity.metrics(record.metrics, (), system=False)
    entity.tags(record.tags, without=())
    return result


@pytest.mark.parametrize(
    "names",
    [
        ["mlcat.a", "source.mlcat.a", "source.a", "mlflow.status", "tag.mlflow.status", "tag.x"],
        ["n" * 300 + "a", "n" * 300 + "b", "bell\x07", "bell\x08", "größe"],
    ],
)
def test_names_are_those_of_the_mapping(names: list[str]) -> None:
    texts = {name: f"value {at}" for at, name in enumerate(names)}
    metrics = tuple(Metric(name, float(at)) for at, name in enumerate(names))
    record = run(params=texts, tags=texts, metrics=metrics)
    result = compare(record, model_of(record))
    assert (result.discrepancies, result.left_out) == (0, {})
    assert result.compared["tag"] == result.compared["parameter"] == len(names)


def test_a_text_that_is_cut_at_its_limit_is_left_out() -> None:
    record = run(params={"a": "v" * (LIMITS.value_chars + 1)})
    result = compare(record, model_of(record))
    assert result.discrepancies == 0
    assert next(iter(result.lines())).endswith("left out: 1 text cut at a limit")


def test_a_text_that_was_cut_and_another_one_is_stale() -> None:
    record = run(params={"a": "v" * (LIMITS.value_chars + 1)})
    other = run(params={"a": "w" * (LIMITS.value_chars + 1)})
    assert compare(record, model_of(other)).total("stale") == 1


def test_a_cut_that_no_limit_explains_is_stale() -> None:
    record = run(params={"a": "v" * 100})
    model = model_of(run(params={"a": "vv… [truncated, 100 characters]"}))
    assert compare(record, model).total("stale") == 1


def test_entries_beyond_a_limit_are_left_out() -> None:
    params = {f"p{at:05d}": "1" for at in range(LIMITS.params + 3)}
    record = run(params=params)
    result = compare(record, model_of(record))
    assert (result.discrepancies, result.compared["parameter"]) == (0, LIMITS.params)
    assert list(result.left_out.values()) == [3]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 5e-324, 1e16, 0.1])
def test_numbers_are_equal_by_value(value: float) -> None:
    record = run(metrics=(Metric("m", value, 1, 0),))
    assert compare(record, model_of(record)).discrepancies == 0
    other = run(metrics=(Metric("m", 2.5, 1, 0),))
    assert compare(record, model_of(other)).total("stale") == 1


def test_a_credential_in_an_address_is_not_expected() -> None:
    record = run(tags={"mlflow.source.git.repoURL": "https://jane:secret@git.example.com/a"})
    assert compare(record, model_of(record)).discrepancies == 0


def test_what_is_kept_and_shown_is_bounded() -> None:
    result = VerifyResult("night")
    for at in range(KEPT + 5):
        result.add(Discrepancy("stale", "tag", f"urn:{at}", "f", "a\nb" * 200, None))
    lines = list(result.lines())
    assert len(lines) == 1 + 1 + SHOWN + 1
    assert lines[-1] == f"  … and {KEPT + 5 - SHOWN:,} more, see --json"
    assert r"a\u000ab" in lines[2]
    data = result.data()
    assert (len(data["discrepancies"]), data["discrepancies_not_shown"]) == (KEPT, 5)
    assert max(len(one["expected"]) for one in data["discrepancies"]) < 250


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "0 orphaned"),
        (1, "0 orphaned"),
        (0, "orphaned: not known, the search index is behind: 0 of 1"),
    ],
)
def test_orphans_are_not_known_while_a_search_finds_less_than_there_is(
    found: int | None, words: str
) -> None:
    result = VerifyResult("night")
    properties = {"customProperties": {"mlcat.source": "here"}}
    stored = {MODEL: StoredAspect(properties)}
    assert EntityComparison(result, model_urn("a"), MODEL, stored).is_live("run", "a")
    removed = {**stored, "status": StoredAspect({"removed": True})}
    EntityComparison(result, model_urn("b"), MODEL, removed).is_live("run", "b")
    result.found = found
    summary = next(result.lines())
    assert summary.endswith(f", 0 dangling, {words}")
    assert result.data()["index_is_behind"] == (found == 0)
