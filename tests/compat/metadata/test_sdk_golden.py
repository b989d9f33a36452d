"""Every proposal of the golden files fits our declarations and the SDK's schema classes."""

import json
from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from support.sdk_schema import assert_valid_for_sdk

pytestmark = pytest.mark.compat

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted(GOLDEN.glob("*/*/proposals.json"))


def test_there_are_golden_files() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.parent.relative_to(GOLDEN)))
def test_golden_proposals_fit(file: Path) -> None:
    for entity in json.loads(file.read_text()):
        check(entity["urn"])
        for name, value in entity["aspects"].items():
            assert validate_aspect(entity_type_of(entity["urn"]), name, value) == []
            assert_valid_for_sdk(Proposal(entity["urn"], name, value))
