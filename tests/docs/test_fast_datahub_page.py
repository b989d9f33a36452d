"""`fast-datahub.md`: what its table says that a new entity makes is what the golden files have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.schema.virtual import DEFAULTED, default_aspect
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import UNION
from support.page_blocks import table_rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "fast-datahub.md").read_text()
GOLDEN = ROOT / "tests" / "golden"
TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.customer_profile)"
FEATURE = "urn:li:mlFeature:(rides.customer_profile,lifetime_days)"
MAPPED = {
    "run": "run_ordinary",
    "version of a model": "version_of_run",
    "experiment": "experiment",
    "registered model": "registered_model",
}


ROWS = {row[0]: row[1:] for row in table_rows(PAGE, "## What a new entity makes")}


def entity(name: str) -> Entity:
    if name in MAPPED:
        text = (GOLDEN / "mlflow" / MAPPED[name] / "proposals.json").read_text()
        (one,) = json.loads(text)
        return Entity(one["urn"], one["aspects"])
    urn = {"feature table": TABLE, "feature": FEATURE}[name]
    aspects: dict[str, Aspect] = {}
    for line in (GOLDEN / "feast" / "registry.jsonl").read_text().splitlines():
        proposal: dict[str, Any] = json.loads(line)
        if proposal.pop("urn") == urn:
            aspects |= proposal
    return Entity(urn, aspects)


@pytest.mark.parametrize(("name", "cells"), ROWS.items())
def test_the_aspects_of_a_new_entity_are_those_in_the_table(name: str, cells: list[str]) -> None:
    one = entity(name)
    sent = {proposal.aspect_name for proposal in merge_entity(one, None, UNION).proposals}
    # As the recorded answers of a DataHub server have them.
    made = {aspect for aspect in DEFAULTED if default_aspect(one.urn, one.entity_type, aspect)}
    made = {key_aspect_name(one.entity_type), *made} - sent
    shown_sent, shown_made = ({*re.findall(r"`(\w+)`", cell)} for cell in cells[:2])
    assert shown_sent == sent
    assert shown_made == made
    assert int(cells[2]) == len(sent) + len(made)


def test_each_kind_of_entity_is_in_the_table() -> None:
    assert ROWS.keys() == {*MAPPED, "feature table", "feature"}
