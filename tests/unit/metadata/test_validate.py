from typing import Any

import pytest

from mlcat_ingest.metadata.validate import (
    MAX_PROBLEMS,
    AspectProblem,
    adjusted_aspect,
    validate_aspect,
)

REQUIRED = "field is required but not found and has no default value"
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
    assert problems("mlPrimaryKeyProperties", {}, "mlPrimaryKey") == [f"/sources :: {REQUIRED}"]


def test_an_enum_takes_its_symbols() -> None:
    assert problems("mlFeatureProperties", {"dataType": "SEQUENCE"}, "mlFeature") == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"name": None}, "/name :: null cannot be coerced to String"),
        ({"groups": None}, "/groups :: array type is not backed by a DataList"),
        ({"tags": None}, "/tags :: array type is not backed by a DataList"),
        ({"version": None}, "/version :: record type is not backed by a DataMap"),
        ({"date": None}, "/date :: null cannot be coerced to Long"),
        ({"version": {"versionTag": None}}, "/version/versionTag :: null cannot be coerced to Str"),
    ],
)
def test_null_is_refused(value: object, sentence: str) -> None:
    (found,) = problems("mlModelProperties", value)
    assert found.startswith(sentence)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": "m", "value": 1, "createdAt": 7}, "/value :: 1 cannot be coerced to String"),
        (
            {"name": "m", "value": "1", "createdAt": True},
            "/createdAt :: true cannot be coerced to Long",
        ),
        (
            {"name": "m", "value": "1", "createdAt": 2**63},
            "/createdAt :: 9223372036854775808 cannot be coerced",
        ),
        (
            {"name": "m", "value": "1", "createdAt": -(2**63) - 1},
            "/createdAt :: -9223372036854775809 cannot be",
        ),
        ({"value": "1", "createdAt": 7, "description": "m"}, f"/name :: {REQUIRED}"),
        (
            {"name": "m", "description": 1, "createdAt": 7},
            "/description :: 1 cannot be coerced to String",
        ),
        ({"name": "m", "newer": 1, "value": 1}, "/value :: 1 cannot be coerced to String"),
        ("name", " :: record type is not backed by a DataMap"),
        (None, " :: record type is not backed by a DataMap"),
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
        assert reported.startswith(f"/trainingMetrics/{at}{sentence}")


def test_null_in_one_of_many_records_is_refused() -> None:
    metrics = [{"name": f"m{n}", "value": "1"} for n in range(20)]
    (found,) = problems("mlModelProperties", {"trainingMetrics": [*metrics, {"name": None}]})
    assert found == "/trainingMetrics/20/name :: null cannot be coerced to String"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", 3, "/name :: 3 cannot be coerced to String"),
        ("name", True, "/name :: true cannot be coerced to String"),
        ("name", ["x"], '/name :: ["x"] cannot be coerced to String'),
        ("date", "2026", "/date :: 2026 cannot be coerced to Long"),
        ("date", True, "/date :: true cannot be coerced to Long"),
        ("date", 2**63, "/date :: 9223372036854775808 cannot be coerced to Long"),
        ("created", 5, "/created :: record type is not backed by a DataMap"),
        ("created", {}, f"/created/time :: {REQUIRED}"),
        ("created", {"time": 1, "actor": "ann"}, '/created/actor :: "Provided urn ann" is invalid'),
        ("groups", GROUP, "/groups :: array type is not backed by a DataList"),
        ("groups", [GROUP, 3], "/groups/1 :: 3 cannot be coerced to Urn"),
        (
            "groups",
            ["urn:li:mlModel:(urn:li:dataPlatform:mlflow,g,PROD)"],
            "is not a valid destination",
        ),
        (
            "trainingJobs",
            ["urn:li:tag:x"],
            '/trainingJobs/0 :: "Provided urn urn:li:tag:x" is invalid: Entity type for urn: ',
        ),
        (
            "mlFeatures",
            [f"urn:li:mlFeature:(a,{'b' * 600})"],
            '/mlFeatures/0 :: "Provided urn urn:li:mlFeature:(a,bbb',
        ),
        ("hyperParams", [{"name": "a"}, {}], f"/hyperParams/1/name :: {REQUIRED}"),
        ("hyperParams", [{"name": "a", "value": 1}], "/hyperParams/0/value :: 1 cannot be coerced"),
        ("customProperties", [], "map type is not backed by a DataMap"),
        ("customProperties", {"a.b": 1}, "/customProperties/a.b :: 1 cannot be"),
        ("hyperParameters", {"a": 1}, "union type is not backed by a DataMap or null"),
        ("hyperParameters", {"a": {}}, "DataMap should have at least one entry"),
        ("hyperParameters", {"a": {"x": 1}}, "DataMap should have at least one entry"),
        ("hyperParameters", {"a": {"int": 2**31}}, "/a/int :: 2147483648 cannot be coerced to I"),
        ("hyperParameters", {"a": {"int": None}}, "/a/int :: null cannot be coerced to Integer"),
        ("hyperParameters", {"a": {"double": "1"}}, "cannot be coerced to Double"),
        ("hyperParameters", {"a": {"double": True}}, "cannot be coerced to Double"),
        ("hyperParameters", {"a": {"boolean": 1}}, "/a/boolean :: 1 cannot be coerced to Boolean"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object, sentence: str) -> None:
    (found,) = problems("mlModelProperties", {"name": "x", field: value})
    assert sentence in found


@pytest.mark.parametrize(
    ("entity_type", "aspect", "value", "sentence"),
    [
        (
            "mlFeature",
            "mlFeatureProperties",
            {"dataType": "STRING"},
            '"STRING" is not an enum symbol',
        ),
        (
            "mlFeature",
            "mlFeatureProperties",
            {"dataType": 1},
            "enum type is not backed by a String",
        ),
        ("mlFeature", "mlModelProperties", {}, "Unknown aspect mlModelProperties for entity mlF"),
        ("mlModel", "mlModelProperties", [], "record type is not backed by a DataMap"),
        ("mlModel", "forms", 3, "record type is not backed by a DataMap"),
        ("dataHubIngestionSource", "dataHubIngestionSourceInfo", None, "record type is not backed"),
        (
            "mlModel",
            "globalTags",
            {"tags": [{"tag": "urn:li:corpuser:a"}]},
            "urn:li:corpuser:a is not a valid destination",
        ),
        ("mlModel", "status", {"removed": "yes"}, "/removed :: yes cannot be coerced to Boolean"),
        (
            "mlModel",
            "container",
            {"container": None},
            "/container :: null cannot be coerced to Urn",
        ),
        ("mlModel", "globalTags", {"tags": [object()]}, "/tags/0 :: record type is not backed"),
        (
            "dataProcessInstance",
            "dataProcessInstanceInput",
            {"inputs": [], "inputEdges": [{"destinationUrn": "urn:li:tag:a"}]},
            '/inputEdges/0/destinationUrn :: "Provided urn urn:li:tag:a" is invalid: Entity type',
        ),
        (
            "mlModel",
            "structuredProperties",
            {"properties": [{"propertyUrn": "urn:li:structuredProperty:a", "values": ["x"]}]},
            "/properties/0/values/0 :: union type is not backed by a DataMap or null",
        ),
        (
            "mlModel",
            "structuredProperties",
            {"properties": [{"propertyUrn": "urn:li:structuredProperty:a", "values": [{"x": 1}]}]},
            "DataMap should have at least one entry for a union type",
        ),
        (
            "mlModel",
            "ownership",
            {"owners": [], "ownerTypes": {"a": ["urn:li:corpuser:a", "b"]}},
            '/ownerTypes/a/1 :: "Provided urn b" is invalid',
        ),
    ],
)
def test_what_is_wrong_is_reported(
    entity_type: str, aspect: str, value: object, sentence: str
) -> None:
    (found,) = problems(aspect, value, entity_type)
    assert sentence in found


def test_aspects_without_a_typed_form_are_taken_as_they_are() -> None:
    assert problems("dataHubIngestionSourceInfo", {"x": 1}, "dataHubIngestionSource") == []
    assert problems("institutionalMemory", {"elements": 3}, "application") == []
    assert problems("forms", {"anything": 1}) == []
    assert problems("forms", {}, "aTypeOfTomorrow") == [
        " :: Unknown aspect forms for entity aTypeOfTomorrow"
    ]


GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"
NOT_ONE = "is invalid: Entity type for urn: {} is not a valid destination"
FEW, MANY = "at least one entry for a union type", "no more than one entry for a union type"


@pytest.mark.parametrize(
    ("entity_type", "aspect", "value", "expected"),
    [
        ("incident", "incidentInfo", {"entities": ["urn:li:service:s"]}, {}),
        ("incident", "incidentInfo", {"entities": 3, "x": []}, {}),
        (
            "incident",
            "incidentInfo",
            {"entities": ["urn:li:service:s", GROUP]},
            {"/entities/1": NOT_ONE.format(GROUP)},
        ),
        (
            "assertion",
            "assertionInfo",
            {"datasetAssertion": {"dataset": "urn:li:tag:t"}},
            {"/datasetAssertion/dataset": NOT_ONE.format("urn:li:tag:t")},
        ),
        (
            "assertion",
            "assertionRunEvent",
            {"asserteeUrn": "urn:li:tag:t"},
            {"/asserteeUrn": NOT_ONE.format("urn:li:tag:t")},
        ),
        ("glossaryTerm", "schemaMetadata", {"platformSchema": {}}, {"/platformSchema": FEW}),
        (
            "dataset",
            "schemaMetadata",
            {"fields": [{"type": {"type": {"com.linkedin.schema.NoType": {}}}}]},
            {"/fields/0/type/type": FEW},
        ),
        ("dataset", "schemaMetadata", {"platformSchema": "x"}, {"/platformSchema": "union type"}),
        (
            "structuredProperty",
            "propertyDefinition",
            {
                "allowedValues": [
                    {"value": {"string": "a"}},
                    {"value": {"string": "a", "double": 1}},
                ]
            },
            {"/allowedValues/1/value": MANY},
        ),
        ("mlModel", "cost", {"cost": {"costId": 1}}, {}),
        ("mlModel", "cost", {"cost": {"fieldDiscriminator": "costId"}}, {"/cost": FEW}),
    ],
)
def test_unions_and_references_of_aspects_without_a_typed_form_are_checked(
    entity_type: str, aspect: str, value: dict[str, Any], expected: dict[str, str]
) -> None:
    found = validate_aspect(entity_type, aspect, value)
    assert [problem.path for problem in found] == list(expected)
    assert all(expected[problem.path] in problem.sentence for problem in found)


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
        AspectProblem("", "record type is not backed by a DataMap")
    ]


def test_a_problem_never_repeats_a_value_of_any_length() -> None:
    long = "x" * 100_000
    value = {"dataType": long, "customProperties": {long: 1}}
    assert all(len(text) < 400 for text in problems("mlFeatureProperties", value, "mlFeature"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"string": "x"}, []),
        ({"double": 2.5}, []),
        ({"fieldDiscriminator": "string", "string": "x"}, []),
        ({"double": "x"}, ["/double :: x cannot be coerced to Double"]),
        (
            {"double": 1, "string": "x"},
            [" :: DataMap should have no more than one entry for a union type"],
        ),
        (
            {"fieldDiscriminator": "double"},
            [" :: DataMap should have at least one entry for a union type"],
        ),
    ],
)
def test_a_value_of_a_union_has_one_type(value: dict[str, Any], expected: list[str]) -> None:
    parameters = {"hyperParameters": {"lr": value}}
    assert problems("mlModelProperties", parameters) == [
        f"/hyperParameters/lr{problem}" for problem in expected
    ]


@pytest.mark.parametrize(
    ("aspect", "value", "stored"),
    [
        ("mlModelProperties", {"name": "m", "nam": 1}, {"name": "m"}),
        ("mlModelProperties", {"nam": {"a": [None]}}, {}),
        (
            "mlModelProperties",
            {"version": {"versionTag": "1", "x": 1}},
            {"version": {"versionTag": "1"}},
        ),
        (
            "mlModelProperties",
            {"customProperties": {"any": "1"}},
            {"customProperties": {"any": "1"}},
        ),
        ("mlModelProperties", {"date": 1.9}, {"date": 1}),
        (
            "mlModelProperties",
            {"hyperParameters": {"a": {"int": 0.5}}},
            {"hyperParameters": {"a": {"int": 0}}},
        ),
        (
            "mlModelProperties",
            {"hyperParams": [{"name": "a"}, {"name": "b", "fieldDiscriminator": "x"}]},
            {"hyperParams": [{"name": "a"}, {"name": "b"}]},
        ),
        (
            "mlModelProperties",
            {"hyperParameters": {"a": {"fieldDiscriminator": "double", "double": 1.5}}},
            {"hyperParameters": {"a": {"double": 1.5}}},
        ),
        ("dataFlowInfo", {"name": "f", "anything": 1.5}, {"name": "f", "anything": 1.5}),
    ],
)
def test_unknown_fields_are_dropped_and_numbers_cut(
    aspect: str, value: dict[str, Any], stored: dict[str, Any]
) -> None:
    assert adjusted_aspect("mlModel", aspect, value) == (stored, [])


def test_a_right_value_is_stored_as_it_is() -> None:
    value = {"name": "m", "hyperParams": [{"name": "a"}]}
    assert adjusted_aspect("mlModel", "mlModelProperties", value)[0] is value
