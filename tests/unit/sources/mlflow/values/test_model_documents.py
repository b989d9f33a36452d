"""What is read of an `MLmodel`."""

import json
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.values.records import HISTORY_TAG, logged_history, model_document

PYTHON = {"python_version": "3.11.7", "loader_module": "mlflow.sklearn", "env": {"conda": "x"}}


@pytest.mark.parametrize(
    ("content", "frameworks"),
    [
        (
            {
                "mlflow_version": "3.17.2",
                "flavors": {"python_function": PYTHON, "sklearn": {"sklearn_version": "1.7.2"}},
            },
            ("mlflow 3.17.2", "python 3.11.7", "sklearn 1.7.2"),
        ),
        ({"flavors": {"xgboost": {"xgb_version": "3.1.1", "model_class": "x"}}}, ("xgb 3.1.1",)),
        ({"flavors": {"odd": {"odd_version": 3, "_version": None, "version": "1"}}}, ()),
        ({"flavors": {"odd": "1.0"}, "mlflow_version": ""}, ()),
        ({"flavors": ["sklearn"]}, ()),
        ({}, ()),
    ],
)
def test_frameworks_are_what_has_a_version(
    content: dict[str, Any], frameworks: tuple[str, ...]
) -> None:
    assert model_document(content).frameworks == frameworks


@pytest.mark.parametrize("number", [str(2**70), "Infinity"])
def test_a_history_is_read_whatever_its_numbers_are(number: str) -> None:
    (entry,) = logged_history({HISTORY_TAG: f'[{{"loss": {number}, "name": "m"}}]'})
    assert entry == {"loss": json.loads(number), "name": "m"}
