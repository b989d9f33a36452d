import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import DefinitionError
from mlcat_ingest.metadata_tests.definition import (
    NAMES,
    OPERATORS,
    PATTERN_CHARS,
    PATTERN_TEXT_CHARS,
    _compile_pattern,
    matches,
    number,
    regex_match,
    text_of,
)


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
    patterns = [_compile_pattern(pattern) for pattern in want]
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
    assert [text_of(value) for value in scalars] == [
        "a",
        "1",
        "0.5",
        "false",
        None,
        None,
    ]


ALPHABET = "ab_ 1\n"

_atoms = st.sampled_from(
    ["a", "b", "_", ".", r"\d", r"\w", r"\W", r"\S", "[ab]", "[^a]", r"[\s1]", "[a-b_]", r"\n"]
)
_quantifiers = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?"])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, _quantifiers).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


patterns = st.recursive(st.tuples(_atoms, _quantifiers).map("".join), _grow, max_leaves=6)


def tried(pattern: str, text: str) -> bool:
    return matches(_compile_pattern(pattern), text)


@settings(deadline=None)
@given(patterns, st.text(ALPHABET, max_size=8))
def test_matches_what_the_standard_library_matches(pattern: str, text: str) -> None:
    assert tried(pattern, text) is (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("^urn:li:.*,PROD\\)$", "urn:li:mlModel:(p,m,PROD)", True),
        ("abc", "xabcx", False),
        ("a$", "a\n", False),
        ("(?i)PROD-\\d{2}", "prod-07", True),
        ("(?P<letters>[a-z]+)-(\\d)", "ab-1", True),
        (r"\p{Greek}+", "αβ", True),
        ("a.b", "a\nb", False),
        ("🦄+", "🦄🦄", True),
    ],
)
def test_the_whole_text_is_described(pattern: str, text: str, expected: bool) -> None:  # noqa: FBT001
    assert tried(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(a", "is invalid: missing ): (a"),
        ("a**", "is invalid: bad repetition operator: **"),
        ("(?=a)a", "is invalid: invalid perl operator: (?="),
        ("(?<!é)a", "is invalid: invalid perl operator: (?<!"),
        (r"(a)\1", r"is invalid: invalid escape sequence: \1"),
        ("[é-à]", "is invalid: invalid character class range: é-à"),
        ("((a{100}){100}){100}", "is invalid: invalid repetition size: {100}"),
        (r"\pL{1000}", "is invalid: pattern too large"),
        ("a" * (PATTERN_CHARS + 1), "is longer than 512 characters"),
    ],
)
def test_what_is_refused_says_why(pattern: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(says)):
        _compile_pattern(pattern)


def test_the_library_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DefinitionError):
        _compile_pattern("(never closed")
    assert not tried("(?:(?:a|b|ab){0,1000})*x", "ab" * 5_000)
    assert capfd.readouterr().err == ""


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 9_999 + "b"),
        ("(?:(?:a|b|ab){0,1000})*x", "ab" * 5_000),
        ("(a|aa)+$b", "a" * 9_999 + "b"),
        (".*a.*a.*a.*a.*x", "a" * 9_999 + "b"),
    ],
)
def test_what_would_backtrack_without_end_ends(pattern: str, text: str) -> None:
    assert tried(pattern, text) is False


def test_a_text_beyond_the_limit_does_not_match() -> None:
    assert tried("a*", "a" * PATTERN_TEXT_CHARS) is True
    assert tried("a*", "a" * (PATTERN_TEXT_CHARS + 1)) is False
