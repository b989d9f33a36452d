"""Each mapping rule as a case: a folder with `record.json` and the `proposals.json` it gives."""

import json
from pathlib import Path

import pytest

from mlcat_ingest.core.redaction import redact_tree
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.urn import decoded_parts, entity_type_of
from mlcat_ingest.sources.mlflow.mapping import map_record
from support.golden import assert_valid
from support.merging import written
from support.mlflow_records import entity_to_json, record_from_json

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/record.json"))


def shown(entities: object) -> str:
    return json.dumps(entities, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_record_gives_these_proposals(case: Path, request: pytest.FixtureRequest) -> None:
    record = record_from_json(json.loads((case / "record.json").read_text()))
    # As a run redacts it.
    found = shown(redact_tree([entity_to_json(entity) for entity in map_record(record)]))
    golden = case / "proposals.json"
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(found, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_record_gives_can_be_sent_and_is_valid(case: Path) -> None:
    record = record_from_json(json.loads((case / "record.json").read_text()))
    for entity in map_record(record):
        decoded_parts(entity.urn)
        kind = entity_type_of(entity.urn)
        if kind in {"mlModel", "mlModelGroup"}:
            assert list(entity.aspects)[-1] == f"{kind}Properties"
            # Empty where MLflow has none, so that what a rule added goes when the rule goes.
            assert {"ownership", "globalTags"} <= entity.aspects.keys()
        assert_valid(written(entity))
        for proposal in written(entity):
            value = proposal.wire()["aspect"]["value"]
            assert loads(value) == proposal.aspect


def test_every_golden_file_has_its_case() -> None:
    assert {path.parent for path in HERE.glob("*/proposals.json")} == set(CASES)
