"""What people call an entity stands beside its URN: in notes, plans and the gate on tests."""

from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.report.labels import label_of, label_of_merged, with_label
from mlcat_ingest.pipeline.report.render import as_text
from mlcat_ingest.pipeline.report.report import FailedTest, TestVerdict, Verdict
from mlcat_ingest.pipeline.report.tally import RunStatus, Tally
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.fakes import FakeSink, FakeSource, group_urn, model_urn
from support.recipes import a_recipe

HOME = "mlModelProperties"
MODEL = model_urn("a")
IN_CHURN = {"name": "forest 3", "groups": [group_urn("registered:iris"), group_urn("churn")]}


@pytest.mark.parametrize(
    ("urn", "properties", "label"),
    [
        (MODEL, IN_CHURN, "forest 3 (churn)"),
        (MODEL, {"name": "v1", "groups": [group_urn("registered:iris")]}, "v1 (registered:iris)"),
        (MODEL, {"name": "odd", "groups": ["no urn"]}, "odd (no urn)"),
        (MODEL, {"name": ""}, None),
        (MODEL, {"description": "nameless"}, None),
        (MODEL, None, None),
        (group_urn("churn"), {"name": "churn"}, "churn"),
        (group_urn("registered:churn"), {"name": "churn"}, "churn (registered:churn)"),
        (group_urn("eu.team-a.churn"), {"name": "churn"}, "churn (eu.team-a.churn)"),
    ],
)
def test_a_label_is_the_name_and_the_experiment(
    urn: str, properties: dict[str, Any] | None, label: str | None
) -> None:
    assert label_of(urn, properties) == label
    assert with_label("urn:x", label) == ("urn:x" if label is None else f"urn:x {label}")


def test_an_entity_that_is_removed_is_called_what_it_was() -> None:
    gone = Entity(model_urn("a"), {"status": {"removed": True}})
    stored = {HOME: StoredAspect(IN_CHURN, "1")}
    merged = merge_entity(gone, stored, MergeRules("r"))
    assert label_of_merged(merged) == "forest 3 (churn)"


def test_a_note_names_the_entity_that_it_is_about() -> None:
    noted = Entity(model_urn("a"), {HOME: IN_CHURN}, notes=(Note("truncated", "p"),))
    report = PipelineRun([FakeSource([[noted]])], FakeSink(), RunOptions(a_recipe("r"))).execute()
    assert report.note_examples["truncated"] == (f"{model_urn('a')} forest 3 (churn): p",)


def test_the_gate_names_what_fails() -> None:
    example = FailedTest(model_urn("a"), "urn:li:test:t", newly=True, name="forest 3 (churn)")
    tests = (TestVerdict("urn:li:test:t", "Has an owner", failing=1, newly_failing=1),)
    verdict = Verdict("t", tests, examples=(example,))
    standing = RunStatus("c", (), 0, 0, None, gate=verdict)
    text = as_text(Tally("r").report(standing))
    words = f"newly failing: {model_urn('a')} forest 3 (churn): Has an owner (urn:li:test:t)"
    assert words in text
