from typing import Any, get_args

import pytest

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import MLFeatureDataType
from mlcat_ingest.metadata.declaration import (
    OWN_EDGES,
    OWN_URNS,
    RECORDS_FILE,
    choices,
    record_named,
)
from mlcat_ingest.metadata.registry import (
    ASPECTS,
    ENTITY_TYPES,
    allows,
    defaults,
    edges,
    implied_aspect,
    key_aspect,
    key_aspect_name,
)
from mlcat_ingest.metadata.urn import KINDS

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"


def test_the_tables_of_urns_entities_and_aspects_fit_together() -> None:
    for name, roles in KINDS.items():
        assert len(ASPECTS[ENTITY_TYPES[name].key].key) == len(roles)
    for name, entity_type in ENTITY_TYPES.items():
        assert entity_type.key in entity_type.aspects
        assert all(name in ASPECTS[aspect].entity_types for aspect in entity_type.aspects)


def test_an_entity_type_is_described_by_aspects_that_are_declared() -> None:
    named = {name for kind in ENTITY_TYPES.values() for name in (kind.properties, kind.editable)}
    assert named - {None} <= set(ASPECTS)


@pytest.mark.parametrize(
    ("entity_type", "aspect"),
    [
        ("mlModel", "mlModelProperties"),
        ("mlModelGroup", "mlModelGroupProperties"),
        ("mlFeature", "mlFeatureProperties"),
        ("mlFeatureTable", "mlFeatureTableProperties"),
        ("mlPrimaryKey", "mlPrimaryKeyProperties"),
        ("test", "testInfo"),
        ("dataHubIngestionSource", "dataHubIngestionSourceInfo"),
        ("dataHubSecret", None),
        ("aTypeOfTomorrow", None),
    ],
)
def test_an_aspect_may_be_implied(entity_type: str, aspect: str | None) -> None:
    assert implied_aspect(entity_type) == aspect


def test_entity_types_have_the_aspects_of_the_schema_alone() -> None:
    assert allows("mlModel", "mlModelKey")
    assert not allows("mlModelGroup", "versionProperties")
    assert not allows("mlFeature", "mlModelProperties")
    assert allows("chart", "chartInfo")
    assert allows("aiAgent", "aiAgentInfo")
    assert not allows("aTypeOfTomorrow", "aTypeOfTomorrowKey")
    assert not allows("chart", "dashboardInfo")
    assert not allows("chart", "anything")


def test_records_are_named_as_reads_answer_them() -> None:
    assert ASPECTS["mlModelProperties"].record == "com.linkedin.ml.metadata.MLModelProperties"
    assert ASPECTS["mlModelKey"].record == "com.linkedin.metadata.key.MLModelKey"
    assert ASPECTS["incidentInfo"].record == "com.linkedin.incident.IncidentInfo"


@pytest.mark.parametrize(
    ("urn", "name", "value"),
    [
        (
            GROUP,
            "mlModelGroupKey",
            {"platform": "urn:li:dataPlatform:mlflow", "name": "g", "origin": "PROD"},
        ),
        ("urn:li:mlFeature:(a%2C,b)", "mlFeatureKey", {"featureNamespace": "a%2C", "name": "b"}),
        ("urn:li:corpuser:ann", "corpUserKey", {"username": "ann"}),
        ("urn:li:dataHubIngestionSource:c:1", "dataHubIngestionSourceKey", {"id": "c:1"}),
        ("urn:li:chart:(looker,1)", "chartKey", {"dashboardTool": "looker", "chartId": "1"}),
        ("urn:li:aTypeOfTomorrow:x", "aTypeOfTomorrowKey", {"id": "x"}),
    ],
)
def test_a_key_aspect_is_made_of_the_urn(urn: str, name: str, value: dict[str, str]) -> None:
    assert key_aspect(urn) == (name, value)
    assert key_aspect_name(urn.split(":")[2]) == name


@pytest.mark.parametrize("urn", ["urn:li:mlModel:x", "urn:li:form:(a,b)", "urn:li:metric:x"])
def test_no_key_is_made_of_what_is_no_urn(urn: str) -> None:
    with pytest.raises(InvalidUrnError):
        key_aspect(urn)


def test_defaults_are_fresh_values() -> None:
    assert defaults("mlModelProperties") == {"customProperties": {}, "tags": []}
    assert defaults("status") == {"removed": False}
    assert defaults("mlModelKey") == defaults("schemaMetadata") == defaults("anything") == {}
    defaults("mlModelProperties")["tags"].append("x")
    assert defaults("mlModelProperties")["tags"] == []


@pytest.mark.parametrize(
    ("aspect", "value", "expected"),
    [
        (
            "mlModelProperties",
            {"groups": [GROUP, GROUP], "mlFeatures": ["urn:li:mlFeature:(a,b)"], "tags": ["x"]},
            [("Consumes", "urn:li:mlFeature:(a,b)"), ("MemberOf", GROUP)],
        ),
        (
            "globalTags",
            {"tags": [{"tag": "urn:li:tag:a"}, {"tag": "urn:li:tag:b"}]},
            [("TaggedWith", "urn:li:tag:a"), ("TaggedWith", "urn:li:tag:b")],
        ),
        (
            "ownership",
            {"owners": [{"owner": "urn:li:corpuser:a", "type": "CUSTOM", "typeUrn": "urn:li:x:y"}]},
            [("OwnedBy", "urn:li:corpuser:a"), ("ownershipType", "urn:li:x:y")],
        ),
        ("glossaryTerms", {"terms": [{"urn": "urn:li:g:t"}]}, [("TermedWith", "urn:li:g:t")]),
        (
            "dataProcessInstanceInput",
            {"inputs": [], "inputEdges": [{"destinationUrn": "urn:li:dataset:x"}]},
            [("DataProcessInstanceConsumes", "urn:li:dataset:x")],
        ),
        ("container", {"container": "urn:li:container:c"}, [("IsPartOf", "urn:li:container:c")]),
        ("schemaMetadata", {"fields": []}, []),
        ("anything", {"groups": [GROUP]}, []),
    ],
)
def test_edges_are_read_off_an_aspect(
    aspect: str, value: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert list(edges(aspect, value)) == expected


@pytest.mark.parametrize("odd", [None, 3, "urn:li:tag:a", [None, 3, ["x"], {"tag": 3}], {"a": 1}])
def test_odd_values_have_no_edges(odd: Any) -> None:
    assert list(edges("globalTags", {"tags": odd})) == []
    assert list(edges("ownership", {"owners": odd})) == []
    assert list(edges("versionProperties", {"versionSet": [odd] if odd is None else 3})) == []


def test_the_types_of_features_are_those_of_the_model() -> None:
    types = choices("com.linkedin.ml.metadata.MLFeatureProperties", "dataType")
    assert set(get_args(MLFeatureDataType)) == set(types)


def test_what_is_added_to_the_model_is_about_fields_of_it() -> None:
    for place in (*OWN_URNS, *OWN_EDGES):
        record, _, name = place.rpartition(".")
        assert name in record_named(record).fields, place


def test_every_record_of_the_model_can_be_read() -> None:
    without_fields = {
        spec.name for spec in ASPECTS.values() if not record_named(spec.record).fields
    }
    assert without_fields == {"dataHubPersonaInfo"}


def test_urns_are_of_types_of_entities() -> None:
    """A class of URNs in the model may be none: no reference to one could then be stored."""
    names = {line.partition(",")[0] for line in RECORDS_FILE.read_text().splitlines()[1:]}
    fields = [field for name in names for field in record_named(name).fields.values()]
    assert {urn for field in fields for urn in field.urns or ()} <= ENTITY_TYPES.keys()
