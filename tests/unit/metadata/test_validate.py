from typing import Any

import pytest

from mlcat_ingest.metadata.validate import MAX_PROBLEMS, AspectProblem, validate_aspect

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"


def problems(aspect: str, value: object, entity_type: str = "mlModel") -> list[str]:
    return [str(problem) for problem in validate_aspect(entity_type, aspect, value)]


def test_a_full_aspect_has_no_problem() -> None:
    value = {
        "customProperties": {"a": "b"},
        "name": "run",
        "date": 2**63 - 1,
        "created": {"time": -(2**63), "actor": "urn:li:corpuser:ann"},
        "version": {"versionTag": "1"},
        "hyperParameters": {"a": {"int": 3}, "b": {"double": 1}, "c": {"float": 0.5}},
        "hyperParams": [{"name": "lr", "value": "0.1"}],
        "mlFeatures": ["urn:li:mlFeature:(a,b)"],
        "groups": [GROUP],
        "trainingJobs": ["urn:li:dataProcessInstance:x"],
        "tags": [],
        "a field of a newer server": {"kept": True},
    }
    assert problems("mlModelProperties", value) == []


def test_an_empty_aspect_is_one_where_nothing_is_required() -> None:
    assert problems("mlModelProperties", {}) == []
    assert problems("mlPrimaryKeyProperties", {}, "mlPrimaryKey") == ["sources is required"]


def test_an_enum_takes_its_symbols() -> None:
    assert problems("mlFeatureProperties", {"dataType": "SEQUENCE"}, "mlFeature") == []


def test_null_unsets_an_optional_field_and_nothing_else() -> None:
    assert problems("mlModelProperties", {"name": None, "groups": None, "version": None}) == []
    assert problems("mlModelProperties", {"tags": None}) == ["tags must be an array, not null"]
    assert problems("sourceCode", {"sourceCode": None}) == ["sourceCode must be an array, not null"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": "m", "value": 1, "createdAt": 7}, ".value must be a string, not a number"),
        ({"name": "m", "value": "1", "createdAt": True}, ".createdAt must be an integer"),
        ({"name": "m", "value": "1", "createdAt": 2**63}, ".createdAt must fit into 64 bits"),
        ({"name": "m", "value": "1", "createdAt": -(2**63) - 1}, ".createdAt must fit into 64"),
        ({"value": "1", "createdAt": 7, "description": "m"}, ".name is required"),
        ({"name": "m", "description": 1, "createdAt": 7}, ".description must be a string"),
        ({"name": "m", "newer": 1, "value": 1}, ".value must be a string, not a number"),
        ("name", " must be an object, not a string"),
        (None, " must be an object, not null"),
    ],
)
@pytest.mark.parametrize("at", [0, 10, 19])
def test_one_wrong_record_among_many_alike_is_named(at: int, wrong: object, sentence: str) -> None:
    metrics: list[object] = [{"name": f"m{n}", "value": "1", "createdAt": n} for n in range(20)]
    newer = [{"name": "m", "value": "1", "newer": n} for n in range(20)]
    assert problems("mlModelProperties", {"trainingMetrics": metrics}) == []
    assert problems("mlModelProperties", {"trainingMetrics": newer}) == []

    for found in (metrics, newer):
        [reported] = problems(
            "mlModelProperties", {"trainingMetrics": [*found[:at], wrong, *found[at + 1 :]]}
        )
        assert reported.startswith(f"trainingMetrics[{at}]{sentence}")


def test_null_in_one_of_many_records_unsets_its_field() -> None:
    metrics = [{"name": f"m{n}", "value": "1"} for n in range(20)]
    unset = {"name": "m", "value": None}
    assert problems("mlModelProperties", {"trainingMetrics": [*metrics, unset]}) == []


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", 3, "name must be a string, not a number"),
        ("name", True, "name must be a string, not a boolean"),
        ("name", ["x"], "name must be a string, not an array"),
        ("date", "2026", "date must be an integer, not a string"),
        ("date", 1.0, "date must be an integer, not a number"),
        ("date", True, "date must be an integer, not a boolean"),
        ("date", 2**63, "date must fit into 64 bits"),
        ("created", 5, "created must be an object, not a number"),
        ("created", {}, "created.time is required"),
        ("created", {"time": 1, "actor": "ann"}, "created.actor is no URN: 'ann' is not a URN"),
        ("groups", GROUP, "groups must be an array, not a string"),
        ("groups", [GROUP, 3], "groups[1] must be a URN, not a number"),
        (
            "groups",
            ["urn:li:mlModel:(urn:li:dataPlatform:mlflow,g,PROD)"],
            "groups[0] must be a URN of mlModelGroup, not of mlModel",
        ),
        (
            "trainingJobs",
            ["urn:li:tag:x"],
            "trainingJobs[0] must be a URN of dataJob or dataProcessInstance, not of tag",
        ),
        (
            "mlFeatures",
            [f"urn:li:mlFeature:(a,{'b' * 600})"],
            "mlFeatures[0] is no URN: it has more than 512 bytes",
        ),
        ("hyperParams", [{"name": "a"}, {}], "hyperParams[1].name is required"),
        ("hyperParams", [{"name": "a", "value": 1}], "hyperParams[0].value must be a string"),
        ("customProperties", [], "customProperties must be an object, not an array"),
        ("customProperties", {"a.b": 1}, "customProperties['a.b'] must be a string"),
        ("hyperParameters", {"a": 1}, "hyperParameters['a'] must be an object, not a number"),
        ("hyperParameters", {"a": {}}, "hyperParameters['a'] must have exactly one of the keys"),
        ("hyperParameters", {"a": {"x": 1}}, "hyperParameters['a'] must have exactly one"),
        ("hyperParameters", {"a": {"int": 2**31}}, "hyperParameters['a'].int must fit into 32"),
        ("hyperParameters", {"a": {"int": None}}, "['a'].int must be an integer, not null"),
        ("hyperParameters", {"a": {"double": "1"}}, "['a'].double must be a number"),
        ("hyperParameters", {"a": {"double": True}}, "['a'].double must be a number"),
        ("hyperParameters", {"a": {"boolean": 1}}, "['a'].boolean must be a boolean"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object, sentence: str) -> None:
    (found,) = problems("mlModelProperties", {"name": "x", field: value})
    assert sentence in found


@pytest.mark.parametrize(
    ("entity_type", "aspect", "value", "sentence"),
    [
        ("mlFeature", "mlFeatureProperties", {"dataType": "STRING"}, "is 'STRING', not one of AUD"),
        ("mlFeature", "mlFeatureProperties", {"dataType": 1}, "dataType must be a string"),
        ("mlFeature", "mlModelProperties", {}, "mlFeature has no aspect 'mlModelProperties'"),
        ("mlModel", "x" * 90, {}, f"mlModel has no aspect '{'x' * 60}…'"),
        ("mlModel", "mlModelProperties", [], "must be an object, not an array"),
        ("mlModel", "forms", 3, "must be an object, not a number"),
        ("dataHubIngestionSource", "anything", None, "must be an object, not null"),
        (
            "mlModel",
            "globalTags",
            {"tags": [{"tag": "urn:li:corpuser:a"}]},
            "tags[0].tag must be a URN of tag, not of corpuser",
        ),
        ("mlModel", "status", {"removed": "yes"}, "removed must be a boolean, not a string"),
        ("mlModel", "container", {"container": None}, "container must be a URN, not null"),
        ("mlModel", "globalTags", {"tags": [object()]}, "tags[0] must be an object"),
        (
            "dataProcessInstance",
            "dataProcessInstanceInput",
            {"inputs": [], "inputEdges": [{"destinationUrn": "urn:li:tag:a"}]},
            "inputEdges[0].destinationUrn must be a URN of dataProcessInstance or dataset or",
        ),
        (
            "mlModel",
            "structuredProperties",
            {"properties": [{"propertyUrn": "urn:li:structuredProperty:a", "values": ["x"]}]},
            "properties[0].values[0] must be an object, not a string",
        ),
        (
            "mlModel",
            "structuredProperties",
            {"properties": [{"propertyUrn": "urn:li:structuredProperty:a", "values": [{"x": 1}]}]},
            "properties[0].values[0] must have exactly one of the keys string, double",
        ),
        (
            "mlModel",
            "ownership",
            {"owners": [], "ownerTypes": {"a": ["urn:li:corpuser:a", "b"]}},
            "ownerTypes['a'][1] is no URN",
        ),
    ],
)
def test_what_is_wrong_is_reported(
    entity_type: str, aspect: str, value: object, sentence: str
) -> None:
    (found,) = problems(aspect, value, entity_type)
    assert sentence in found


def test_open_types_and_aspects_without_a_typed_form_are_taken_as_they_are() -> None:
    assert problems("dataHubIngestionSourceInfo", {"x": 1}, "dataHubIngestionSource") == []
    assert problems("mlModelProperties", {"name": 3}, "aTypeOfTomorrow") == []
    assert problems("forms", {"anything": 1}) == []


def test_all_problems_are_reported_up_to_a_bound() -> None:
    few = {"name": 1, "description": 2, "hyperParams": [{}, {"name": 3}]}
    assert len(problems("mlModelProperties", few)) == 4
    many: dict[str, Any] = {
        "hyperParams": [{}] * 10_000,
        "customProperties": {str(number): number for number in range(10_000)},
    }
    assert len(problems("mlModelProperties", many)) == MAX_PROBLEMS


def test_a_problem_of_the_whole_aspect_has_no_path() -> None:
    assert validate_aspect("mlModel", "mlModelProperties", "x") == [
        AspectProblem("", "must be an object, not a string")
    ]


def test_a_problem_never_repeats_a_value_of_any_length() -> None:
    long = "x" * 100_000
    value = {"dataType": long, "customProperties": {long: 1}}
    assert all(len(text) < 400 for text in problems("mlFeatureProperties", value, "mlFeature"))


@pytest.mark.parametrize(
    ("cost", "problems"),
    [
        ({"costCode": "x"}, []),
        ({"costId": 2.5}, []),
        ({"fieldDiscriminator": "costCode", "costCode": "x"}, []),
        ({"costId": "x"}, ["cost.costId must be a number, not a string"]),
        (
            {"costId": 1, "costCode": "x"},
            ["cost must have exactly one of the keys costId, costCode"],
        ),
        (
            {"fieldDiscriminator": "costId"},
            ["cost must have exactly one of the keys costId, costCode"],
        ),
    ],
)
def test_a_cost_is_an_amount_or_a_code(cost: dict[str, Any], problems: list[str]) -> None:
    found = validate_aspect("mlModel", "cost", {"costType": "ORG_COST_TYPE", "cost": cost})
    assert [str(one) for one in found] == problems
