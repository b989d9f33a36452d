"""Every proposal of the golden files fits our declarations and the SDK's schema classes."""

from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Proposal
from support.golden import FILES, GOLDEN, assert_valid, proposals_of
from support.sdk_schema import assert_valid_for_sdk


def test_there_are_golden_files() -> None:
    assert {file.relative_to(GOLDEN).parts[0] for file in FILES} == {
        *("feast", "mlflow", "pipeline", "sagemaker"),
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(GOLDEN)))
def test_golden_proposals_fit(file: Path) -> None:
    proposals = [Proposal(*one) for one in proposals_of(file)]
    assert_valid(proposals)
    for one in proposals:
        assert_valid_for_sdk(one)
