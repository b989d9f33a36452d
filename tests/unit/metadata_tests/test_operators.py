from decimal import Decimal
from typing import Any

import pytest

from mlcat_ingest.catalog.metadata_tests.operators import (
    NAMES,
    OPERATORS,
    number,
    regex_match,
    text,
)
from mlcat_ingest.catalog.metadata_tests.patterns import compile_pattern


@pytest.mark.parametrize(
    ("operator", "have", "want", "expected"),
    [
        ("equals", ["a"], ["b", "a"], True),
        ("equals", ["a"], ["A"], False),
        ("equals", [], ["a"], False),
        ("equals", ["0.90"], ["0.9"], True),
        ("equals", [1], ["1.0"], True),
        ("equals", ["12345678901234567890"], ["12345678901234567891"], False),
        ("equals", [True], ["true"], True),
        ("equals", [True], ["True"], True),
        ("equals", [True], ["1"], False),
        ("equals", [{"a": 1}], ["a"], False),
        ("within", ["b"], ["a", "b"], True),
        ("contains_any", ["x", "y"], ["y"], True),
        ("not", ["a"], ["a"], False),
        ("not", ["a"], ["b"], True),
        ("not", [], ["b"], True),
        ("starts_with", ["mlflow.user"], ["nope", "mlflow."], True),
        ("starts_with", ["x"], ["mlflow."], False),
        ("contains_str", ["a long story"], ["long"], True),
        ("contains_str", ["a story", {"x": 1}], ["long"], False),
        ("greater_than", ["0.91"], ["0.9"], True),
        ("greater_than", ["9e-1"], ["0.9"], False),
        ("greater_than", ["inf"], ["1e300"], True),
        ("greater_than", ["nan"], ["0"], False),
        ("greater_than", [], ["0"], False),
        ("greater_than", [True], ["0"], False),
        ("less_than", [-1], ["0"], True),
        ("less_than", ["high"], ["0"], False),
        ("exists", ["x"], [], True),
        ("exists", [0], [], True),
        ("exists", [False], [], True),
        ("exists", [""], [], False),
        ("exists", [{}], [], False),
        ("exists", [], [], False),
        ("is_true", [True], [], True),
        ("is_true", ["TRUE"], [], True),
        ("is_true", [1], [], False),
        ("is_true", [], [], False),
        ("is_false", [False], [], True),
        ("is_false", ["false"], [], True),
        ("is_false", [], [], False),
        ("is_false", [{}], [], False),
        ("schema_fields_have_descriptions", [True], [], True),
        ("schema_fields_have_descriptions", [False], [], False),
    ],
)
def test_operator(operator: str, have: list[Any], want: list[str], expected: bool) -> None:  # noqa: FBT001
    assert OPERATORS[operator](have, want) is expected


def test_all_operators_have_a_name() -> None:
    assert set(NAMES) - OPERATORS.keys() == {"regex_match"}


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        (["v12"], ["x", r"v\d+"], True),
        (["xv12", "v12"], [r"v\d+"], True),
        (["xv12"], [r"v\d+"], False),
        ([12, True], [r"\d+"], True),
        ([{"a": 1}], [".*"], False),
        ([], [".*"], False),
    ],
)
def test_regex_match(have: list[Any], want: list[str], expected: bool) -> None:  # noqa: FBT001
    patterns = [compile_pattern(pattern) for pattern in want]
    assert regex_match(have, patterns) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.", Decimal(1)),
        (".5", Decimal("0.5")),
        ("-2E3", Decimal(-2000)),
        (0.1, Decimal("0.1")),
        ("-inf", Decimal("-Infinity")),
        ("1_000", None),
        (" 1", None),
        ("1e9999999", None),
        ("9" * 401, None),
        (None, None),
    ],
)
def test_number(value: object, expected: Decimal | None) -> None:
    assert number(value) == expected


def test_text_of_scalars() -> None:
    scalars: list[object] = ["a", 1, 0.5, False, None, []]
    assert [text(value) for value in scalars] == [
        "a",
        "1",
        "0.5",
        "false",
        None,
        None,
    ]
