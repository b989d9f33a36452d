"""A counter of the report is declared once; its forms read the declaration."""

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import mlcat_ingest
from mlcat_ingest.airflow.reports import join_summaries, summary_of
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.render import PREFIX, as_json, as_prometheus, as_text
from mlcat_ingest.pipeline.report.report import COUNTERS, Report
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.recipe.secrets import SECRETS
from support.fakes import model_urn

EMPTY = Report("prod", 1_000, 2_000)
COUNTED_ELSEWHERE = {"dead_letters", "source_requests", "catalog_requests"}
"""Counters whose number comes whole from where it is counted, not by the tally's `count`."""


def number(name: str) -> Any:
    """7,000 for the counter `name`, of `x: subTypes` where it has a label."""
    return {"x: subTypes": 7_000} if "label" in COUNTERS[name] else 7_000


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_shows_in_every_form_that_it_is_declared_for(name: str) -> None:
    shown = COUNTERS[name]
    report = replace(EMPTY, **{name: number(name)})

    assert json.loads(as_json(report))[name] == number(name)

    # The number of requests is a metric of two counters.
    found = [one for one in samples(report) if one.value == 7_000 and "side" not in one.labels]
    if "help_text" in shown:
        [one] = found
        assert one.name == PREFIX + shown.get("metric", name)
        labels = {shown["label"]: "x: subTypes"} if "label" in shown else {}
        assert one.labels == {"recipe": "prod", **labels}
        assert f"# HELP {one.name} {shown['help_text']}\n" in as_prometheus(report)
    else:
        assert not found

    if "text" in shown:
        [line] = set(as_text(report).splitlines()[1:]) - set(as_text(EMPTY).splitlines())
        assert "7,000" in line
        assert ("x: subTypes" in line) == ("label" in shown)

    if shown.get("airflow"):
        assert summary_of(report)[name] == 7_000
        assert join_summaries([summary_of(report), summary_of(report)])[name] == 14_000
    else:
        assert name not in summary_of(report)


@pytest.mark.parametrize("name", sorted(set(COUNTERS) - COUNTED_ELSEWHERE))
def test_a_counter_is_counted_by_its_name(name: str) -> None:
    SECRETS.add("a-secret")
    tally = Tally("prod")
    label = ["by a-secret"] if "label" in COUNTERS[name] else []
    tally.count(*label, **{name: 2})
    tally.count(*label, **{name: 3})
    assert getattr(tally.report(), name) == ({"by ***": 5} if label else 5)


def test_what_is_not_declared_cannot_be_counted() -> None:
    with pytest.raises(KeyError, match="conflict"):
        Tally("prod").count(conflict=1)


def test_the_code_counts_only_what_is_declared() -> None:
    root = Path(mlcat_ingest.__file__).parent
    assert {name for path in root.rglob("*.py") for name in counted_in(path)} == (
        set(COUNTERS) - COUNTED_ELSEWHERE
    )


def samples(report: Report) -> Iterator[Sample]:
    for family in text_string_to_metric_families(as_prometheus(report)):
        yield from family.samples


def counted_in(path: Path) -> Iterator[str]:
    """The names that the calls of `count` in a file give."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "count":
            yield from (str(one.arg) for one in node.keywords)


def test_entities_that_lack_one_privilege_are_one_line_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tally = Tally("r", DeadLetters())
    lacks = "403 urn:li:corpuser:ann lacks Edit Entity"
    for number in range(17):
        merged = MergedEntity(Entity(model_urn(f"m{number}"), {}), {}, "updated")
        proposal = Proposal(merged.urn, "glossaryTerms", {})
        refusals = (Refusal(proposal, lacks, 1, 403),)
        tally.entities([Outcome(merged, refusals)], {})
    report = tally.report()
    [example] = report.rejected_examples
    assert (example.reference, example.reason) == (model_urn("m0"), f"{lacks} (and 16 others)")
    assert len(caplog.records) == 1
