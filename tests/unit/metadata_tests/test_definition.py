import json
from typing import Any

import pytest

from mlcat_ingest.errors import DefinitionError
from mlcat_ingest.metadata_tests.definition import (
    MAX_DEFINITION_BYTES,
    All,
    AnyOf,
    Comparison,
    Definition,
    Not,
    read_definition,
)

A: dict[str, Any] = {"property": "urn", "operator": "exists"}
B: dict[str, Any] = {"property": "mlModelProperties.name", "operator": "equals", "values": ["x"]}
COMPARISON_A = Comparison("urn", "exists", ())
COMPARISON_B = Comparison("mlModelProperties.name", "equals", ("x",))


def read(**body: Any) -> Definition:
    return read_definition(json.dumps(body))


def problems_of(**body: Any) -> list[str]:
    return problems_in(json.dumps(body))


def problems_in(definition: object) -> list[str]:
    with pytest.raises(DefinitionError) as rejected:
        read_definition(definition)
    assert str(rejected.value) == "; ".join(rejected.value.problems)
    return list(rejected.value.problems)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], All(())),
        (A, COMPARISON_A),
        ([A, B], All((COMPARISON_A, COMPARISON_B))),
        ({"and": [A, B]}, All((COMPARISON_A, COMPARISON_B))),
        ({"or": [A, B]}, AnyOf((COMPARISON_A, COMPARISON_B))),
        ({"or": A}, AnyOf((COMPARISON_A,))),
        ({"not": A}, Not(COMPARISON_A)),
        ({"not": [A, B]}, Not(All((COMPARISON_A, COMPARISON_B)))),
        ({"and": {"or": [{"not": A}]}}, All((AnyOf((Not(COMPARISON_A),)),))),
    ],
)
def test_predicates(rules: Any, expected: object) -> None:
    assert read(on={"types": ["mlModel"]}, rules=rules).rules == expected


@pytest.mark.parametrize(
    "spelled",
    [
        {"query": "p", "operation": "equals", "params": {"values": ["1"]}},
        {"query": "p", "operation": "EQUALS", "params": {"value": "1"}},
        {"property": "p", "operator": "equals", "values": "1"},
        {"property": "p", "operator": "equals", "values": 1},
        {"property": "p", "operator": "equals", "values": [1], "hint": "unknown fields are kept"},
    ],
)
def test_older_spellings(spelled: Any) -> None:
    assert read(on={"types": []}, rules=spelled).rules == Comparison("p", "equals", ("1",))


def test_values_become_text() -> None:
    rule = {"property": "p", "operator": "equals", "values": [True, False, 0.5, "x"]}
    assert read(on={"types": []}, rules=rule).rules == Comparison(
        "p", "equals", ("true", "false", "0.5", "x")
    )


@pytest.mark.parametrize("name", ["conditions", "match"])
def test_conditions_in_both_spellings(name: str) -> None:
    definition = read(on={"types": ["mlModel"], name: A}, rules=B)
    assert definition.conditions == COMPARISON_A
    assert set(definition.paths()) == {"urn", "mlModelProperties.name"}


def test_conditions_may_be_null() -> None:
    assert read(on={"types": [], "conditions": None}, rules=[]).conditions == All(())


def test_paths_go_through_all_combinations() -> None:
    definition = read(on={"types": []}, rules={"or": [{"not": A}, {"and": [B]}]})
    assert sorted(definition.paths()) == ["mlModelProperties.name", "urn"]


def test_types_match_in_both_spellings() -> None:
    definition = read(on={"types": ["MLMODEL_GROUP", "mlModel"]}, rules=[])
    assert [definition.covers(name) for name in ("mlModelGroup", "mlModel", "mlFeature")] == [
        True,
        True,
        False,
    ]


def test_schema_descriptions_read_their_own_path() -> None:
    rule = {"property": "schemaFields", "operator": "schema_fields_have_descriptions"}
    assert list(read(on={"types": ["dataset"]}, rules=rule).paths()) == ["__schemaFieldsDescribed"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "on: expected an object with the entity types"),
        ({"on": {}, "rules": []}, "on.types: expected a list of entity types"),
        ({"on": {"types": [1]}, "rules": []}, "on.types: expected a list of entity types"),
        ({"on": {"types": []}}, "rules: missing"),
        ({"on": {"types": []}, "rules": 3}, "rules: expected a predicate"),
        (
            {"on": {"types": []}, "rules": [[{"operator": "exists"}]]},
            "rules[0][0].property: expected",
        ),
        ({"on": {"types": []}, "rules": {"property": "p" * 1001}}, "rules.property: longer"),
        (
            {"on": {"types": []}, "rules": {"and": [{"property": "p", "operator": "eq"}]}},
            "rules.and[0].operator: expected one of contains_any",
        ),
        (
            {"on": {"types": []}, "rules": {"property": "p", "operator": "equals"}},
            "rules.values: equals requires at least one value",
        ),
        (
            {"on": {"types": [], "conditions": {"property": "p"}}, "rules": []},
            "on.conditions.operator: expected one of",
        ),
        (
            {"on": {"types": []}, "rules": {"property": "p", "operator": "equals", "values": [{}]}},
            "rules.values: each value must be",
        ),
        (
            {"on": {"types": []}, "rules": {**B, "operator": "less_than", "values": [1, "x"]}},
            "rules.values[1]: 'x' is not a number",
        ),
        (
            {"on": {"types": []}, "rules": {**B, "operator": "regex_match", "values": ["(", "a"]}},
            "rules.values[0]: the regular expression is invalid: missing ): (",
        ),
        ({"on": {"types": []}, "rules": {"and": [], "or": []}}, "rules: 'and' cannot be combined"),
        ({"on": {"types": []}, "rules": {"not": A, **A}}, "rules: 'not' cannot be combined"),
    ],
)
def test_problems_name_their_place(body: dict[str, Any], problem: str) -> None:
    found = problems_of(**body)
    assert any(each.startswith(problem) for each in found), found


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems_of(rules=[{}, {"property": "p", "operator": "?"}])) == 3


def test_nesting_is_limited() -> None:
    rules: Any = A
    for _ in range(40):
        rules = {"not": rules}
    assert "nested deeper than 32" in problems_of(on={"types": []}, rules=rules)[0]


def test_size_is_limited_and_reported_once() -> None:
    assert problems_of(on={"types": []}, rules=[A] * 700) == [
        "rules[498]: more than 500 predicates"
    ]
    assert problems_in(" " * (MAX_DEFINITION_BYTES + 1)) == [
        f"is longer than {MAX_DEFINITION_BYTES} bytes"
    ]


def regex_rule(*patterns: str) -> dict[str, Any]:
    return {**B, "operator": "regex_match", "values": list(patterns)}


def test_patterns_are_compiled_with_the_definition() -> None:
    rules = read(on={"types": []}, rules=regex_rule("a+", "b")).rules
    assert isinstance(rules, Comparison)
    assert [pattern.pattern for pattern in rules.patterns] == ["a+", "b"]


def test_patterns_that_cannot_be_taken_are_problems_with_their_place() -> None:
    says = "the regular expression is invalid: "
    assert problems_of(on={"types": []}, rules=[regex_rule("a"), regex_rule("b", "(?=c)")]) == [
        f"rules[1].values[1]: {says}invalid perl operator: (?="
    ]


def test_the_number_of_patterns_is_limited() -> None:
    on: dict[str, Any] = {"types": []}
    assert isinstance(read(on=on, rules=[regex_rule(*["a"] * 50)]).rules, All)
    assert problems_of(on=on, rules=[regex_rule(*["a"] * 30), regex_rule(*["b"] * 21)]) == [
        "rules[1].values: more than 50 regular expressions in the test"
    ]


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, '{"on": NaN}'])
def test_no_json(text: str) -> None:
    assert "JSON" in problems_in(text)[0]


def test_no_object_and_no_text() -> None:
    assert problems_in("[]") == ["is not a JSON object"]
    assert problems_in(None) == ["is not a string"]
