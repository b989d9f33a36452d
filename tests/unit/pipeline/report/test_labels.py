"""What people call an entity stands beside its URN: in notes, plans and the gate on tests."""

from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.labels import label_of, with_label
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.workflows.plan_diff import label_of_merged
from support.fakes import group_urn, model_urn

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
    merged = merge_entity(gone, stored, MergeRules(Writer("r")))
    assert label_of_merged(merged) == "forest 3 (churn)"
