import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.catalog.limits import PATTERN_CHARS, PATTERN_TEXT_CHARS
from mlcat_ingest.catalog.metadata_tests.patterns import PatternError, compile_pattern, matches

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
    return matches(compile_pattern(pattern), text)


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
        ("(a", "is refused: missing ): (a"),
        ("a**", "is refused: bad repetition operator: **"),
        ("(?=a)a", "is refused: invalid perl operator: (?="),
        ("(?<!é)a", "is refused: invalid perl operator: (?<!"),
        (r"(a)\1", r"is refused: invalid escape sequence: \1"),
        ("[é-à]", "is refused: invalid character class range: é-à"),
        ("((a{100}){100}){100}", "is refused: invalid repetition size: {100}"),
        (r"\pL{1000}", "is refused: pattern too large"),
        ("a" * (PATTERN_CHARS + 1), "has more than 512 characters"),
    ],
)
def test_what_is_refused_says_why(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match=re.escape(says)):
        compile_pattern(pattern)


def test_the_library_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternError):
        compile_pattern("(never closed")
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
