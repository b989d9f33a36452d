"""What Airflow keeps of runs, and the gate on it."""

import ast
from pathlib import Path

import pytest
from jinja2 import Environment

from mlcat_ingest.airflow.provider import get_provider_info
from mlcat_ingest.airflow.reports import (
    TESTS,
    changed_group_lines,
    join_summaries,
    refused_by,
    summary_of,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.pipeline.report.report import (
    EntityCounts,
    EvaluationSummary,
    FailedRecord,
    Report,
)
from support.fakes import group_urn

TEST = "urn:li:test:owned"
DAG = Path(__file__).parents[3] / "airflow_dags" / "mlcat_ingest_dag.py"


def a_report(**changes: object) -> Report:
    given = {
        "name": "prod",
        "started_at_ms": 1,
        "finished_at_ms": 2,
        "records": 3,
        "entities": {"mlModel": EntityCounts(read=3, created=2, unchanged=1)},
        "evaluation": EvaluationSummary(2, 1, 1, {TEST: 1}),
        **changes,
    }
    return Report(**given)  # type: ignore[arg-type]


def test_summaries_of_shards_add_up() -> None:
    dropping = a_report(dropped={"mlModel: subTypes": 2, "mlModel: container": 1})
    done = join_summaries([summary_of(a_report()), summary_of(dropping), summary_of(dropping)])
    assert (done["shards"], done["records"], done["evaluated"]) == (2, 9, 6)
    assert done["entities"]["mlModel"]["created"] == 6
    assert done["failing_tests"] == {TEST: 3}
    assert done["dropped"] == 6


def test_what_several_runs_counted_is_added() -> None:
    report = a_report(
        entities={"mlModel": EntityCounts(read=3, created=1, rejected=2)},
        failed_records=4,
        dropped={"mlModel: subTypes": 5},
        source_requests=6,
        catalog_requests=7,
    )
    counted = {
        "records": 3,
        "rejected": 2,
        "failed_records": 4,
        "dropped": 5,
        "source_requests": 6,
        "catalog_requests": 7,
        "evaluated": 2,
    }
    summary = summary_of(report)
    done = join_summaries([summary, summary])
    assert {name: summary[name] for name in counted} == counted
    assert {name: done[name] for name in counted} == {
        name: 2 * count for name, count in counted.items()
    }


def test_the_log_links_to_the_first_changed_groups() -> None:
    names = [f"g{at:02}" for at in range(12)]
    report = a_report(
        changed_groups=120,
        changed_group_urns=tuple(map(group_urn, names)),
        group_page="https://dh/mlModelGroup/{urn}",
    )
    head, *links, last = changed_group_lines(report)
    assert (head, last) == ("  groups       120 changed", "    … and 110 more")
    begin = "    https://dh/mlModelGroup/urn%3Ali%3AmlModelGroup%3A%28urn%3Ali%3AdataPlatform%3A"
    assert links == [f"{begin}mlflow%2C{name}%2CPROD%29" for name in names[:10]]


def test_without_known_pages_the_log_has_the_urns_of_changed_groups() -> None:
    urn = group_urn("g")
    report = a_report(changed_groups=1, changed_group_urns=(urn,))
    assert list(changed_group_lines(report)) == ["  groups       1 changed", f"    {urn}"]
    assert list(changed_group_lines(a_report())) == []


def test_a_summary_stays_small_whatever_failed() -> None:
    failed = tuple(FailedRecord(f"run {at}", "x" * 300) for at in range(50))
    tests = EvaluationSummary(9, 0, 9, {f"{TEST}-{at}": at for at in range(500)})
    report = a_report(failed_records=50, failed_examples=failed, evaluation=tests)
    assert len(dumps(summary_of(report))) < 8_192


def test_changed_groups_are_named_as_far_as_they_fit_and_all_are_counted() -> None:
    some = tuple(
        f"urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{at:0440},PROD)" for at in range(30)
    )
    summary = summary_of(a_report(changed_groups=120, changed_group_urns=some))
    assert summary["changed_groups"] == 120
    assert summary["changed_group_urns"] == list(some[:10])
    assert len(dumps(summary)) < 8_192


def test_a_group_that_several_shards_changed_is_counted_once() -> None:
    one = summary_of(a_report(changed_groups=2, changed_group_urns=("urn:a", "urn:b")))
    more = summary_of(a_report(changed_groups=5, changed_group_urns=("urn:b", "urn:c")))
    done = join_summaries([one, more])
    assert done["changed_group_urns"] == ["urn:a", "urn:b", "urn:c"]
    assert done["changed_groups"] == 6


def test_a_gate_is_shut_by_the_tests_it_names_alone() -> None:
    summary = summary_of(a_report())
    assert refused_by(summary, "owned") == f"failing metadata tests: {TEST} (1)"
    assert refused_by(summary, "documented") is None


@pytest.mark.parametrize(("shards", "more"), [(1, 1), (2, 2)])
def test_a_gate_is_shut_by_failing_tests_that_a_summary_has_no_room_for(
    shards: int, more: int
) -> None:
    failing = {f"urn:li:test:t{number:02}": 9 for number in range(TESTS)} | {TEST: 1}
    one = summary_of(a_report(evaluation=EvaluationSummary(failing_tests=failing)))
    summary = one if shards == 1 else join_summaries([one] * shards)
    assert refused_by(summary, "t07$") == f"failing metadata tests: urn:li:test:t07 ({9 * shards})"
    refusal = refused_by(summary, "owned") or ""
    assert refusal.startswith(f"{more} further metadata test")
    assert "--fail-on-tests" in refusal
    assert refused_by(summary, None) is None


@pytest.mark.parametrize(
    ("parameter", "refusal"),
    [
        (None, None),
        ("", None),
        ("None", "failing metadata tests: urn:li:test:owned-by-None (2)"),
        ("owned$", f"failing metadata tests: {TEST} (1)"),
        (
            "owned(",
            (
                "`fail_on_tests` is not a regular expression: missing ), unterminated subpattern "
                "at position 5"
            ),
        ),
    ],
)
def test_the_gate_of_the_dag_takes_its_parameter_as_it_is(
    parameter: str | None, refusal: str | None
) -> None:
    tests = EvaluationSummary(2, 1, 3, {TEST: 1, "urn:li:test:owned-by-None": 2})
    rendered = Environment(autoescape=True).from_string(gate_template())
    pattern = rendered.render(params={"fail_on_tests": parameter})
    assert refused_by(summary_of(a_report(evaluation=tests)), pattern) == refusal


def gate_template() -> str:
    """The template that the DAG file gives the gate for `fail_on_tests`."""
    calls = [node for node in ast.walk(ast.parse(DAG.read_text())) if isinstance(node, ast.Call)]
    [gate] = [call for call in calls if ast.unparse(call.func) == "MlcatGateOperator"]
    [template] = [one.value for one in gate.keywords if one.arg == "fail_on_tests"]
    return str(ast.literal_eval(template))


def test_what_was_not_evaluated_has_not_passed() -> None:
    message = EvaluationSummary(not_evaluated="the service does not let us")
    summary = join_summaries([summary_of(a_report()), summary_of(a_report(evaluation=message))])
    assert refused_by(summary, ".") == (
        "metadata tests were not evaluated: the service does not let us"
    )


def test_the_provider_names_what_can_be_imported_by_its_path() -> None:
    [connection] = get_provider_info()["connection-types"]
    assert connection["hook-class-name"] == "mlcat_ingest.airflow.hook.MlcatHook"
    assert "extra" in connection["ui-field-behaviour"]["hidden-fields"]
