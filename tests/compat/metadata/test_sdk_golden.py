"""Every proposal of the golden files fits our declarations and the SDK's schema classes."""

from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from support.golden import FILES, GOLDEN, proposals_of
from support.sdk_schema import assert_valid_for_sdk

pytestmark = pytest.mark.compat


def test_there_are_golden_files() -> None:
    assert {file.relative_to(GOLDEN).parts[0] for file in FILES} == {
        *("feast", "mlflow", "pipeline", "sagemaker"),
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(GOLDEN)))
def test_golden_proposals_fit(file: Path) -> None:
    for urn, name, value in proposals_of(file):
        check(urn)
        assert validate_aspect(entity_type_of(urn), name, value) == []
        assert_valid_for_sdk(Proposal(urn, name, value))
