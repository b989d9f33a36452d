"""Key aspects and values as the schema classes of the DataHub SDK read them."""

from typing import Any

import pytest
from datahub.metadata.urns import Urn

from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.registry import key_aspect
from mlcat_ingest.metadata.urn import KINDS
from support.sdk_schema import assert_valid_for_sdk
from support.sdk_values import urn_of


@pytest.mark.parametrize("entity_type", sorted(KINDS))
def test_a_key_aspect_is_what_the_sdk_makes_of_the_urn(entity_type: str) -> None:
    urn = urn_of(entity_type)
    name, value = key_aspect(urn)
    theirs = Urn.from_string(urn).to_key_aspect()  # type: ignore[attr-defined]  # typed URNs have it
    assert name == theirs.ASPECT_NAME
    assert value == theirs.to_obj()
    assert_valid_for_sdk(Proposal(urn, name, value))


EVERY_FIELD: dict[str, dict[str, Any]] = {
    "mlModelProperties": {
        "customProperties": {"mlflow.source.name": "train.py"},
        "externalUrl": "http://mlflow:5000/#/experiments/1/runs/a",
        "name": "a run",
        "created": {"time": 1_700_000_000_000, "actor": "urn:li:corpuser:ann"},
        "version": {"versionTag": "3"},
        "hyperParameters": {"lr": {"double": 0.5}, "on": {"boolean": True}},
        "hyperParams": [{"name": "lr", "value": "0.5", "createdAt": 1}],
        "trainingMetrics": [{"name": "loss", "value": "NaN"}],
        "mlFeatures": ["urn:li:mlFeature:(t,f)"],
        "tags": [],
        "groups": ["urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"],
    },
    "ownership": {
        "owners": [{"owner": "urn:li:corpuser:ann", "type": "DATAOWNER"}],
        "lastModified": {"time": 5, "actor": "urn:li:corpuser:ann"},
    },
    "sourceCode": {
        "sourceCode": [{"type": "ML_MODEL_SOURCE_CODE", "sourceCodeUrl": "https://git/x/tree/1"}]
    },
    "status": {"removed": False},
    "structuredProperties": {
        "properties": [
            {
                "propertyUrn": "urn:li:structuredProperty:tier",
                "values": [{"string": "gold"}, {"double": 1.5}],
            }
        ]
    },
}


@pytest.mark.parametrize("name", sorted(EVERY_FIELD))
def test_the_sdk_takes_our_spelling_of_unions_and_nested_records(name: str) -> None:
    urn = urn_of("mlModel")
    assert_valid_for_sdk(Proposal(urn, name, EVERY_FIELD[name]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mlModelProperties", {"name": 3}),
        ("mlModelProperties", {"nmae": "a field that the model does not have"}),
        ("mlModelProperties", {"created": {"time": 1, "who": "a nested one"}}),
        ("versionSetProperties", {"latest": "urn:li:mlModel:x"}),
        ("versionSetProperties", {"an aspect": "of another entity type"}),
    ],
)
def test_what_the_sdk_would_refuse_or_drop_fails(name: str, value: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"parsed|drops|has no aspect|missing"):
        assert_valid_for_sdk(Proposal(urn_of("mlModel"), name, value))
