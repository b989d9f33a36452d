"""Elasticsearch's query syntax, read into words and criteria."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import QUERY_LEVELS, SEARCH_CRITERIA
from mlcat_ingest.catalog.search.request import Condition, Criterion
from mlcat_ingest.catalog.web.query_strings import ReadQuery, read_query


def c(field: str, *values: str, how: str = "EQUAL", negated: bool = False) -> Criterion:
    return Criterion(field, values, Condition(how), negated)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "*"),
        ("  ", "*"),
        ("*", "*"),
        ("* *", "*"),
        ("churn", "churn"),
        ("churn model", "churn model"),
        ("churn AND model", "churn model"),
        ("chu*", "chu"),
        ('"churn model" x', "churn model x"),
        ("+churn (model)", "churn model"),
        ("churn-model v1.2", "churn-model v1.2"),
        (r"a\:b", "a:b"),
        ("Android ORacle NOTe", "Android ORacle NOTe"),
        ("and or not", "and or not"),
        ("churn+model", "churn model"),
    ],
)
def test_words_are_words(text: str, words: str) -> None:
    assert read_query(text) == ReadQuery(words)


@pytest.mark.parametrize(
    ("text", "any_of"),
    [
        ("name:x", [[c("name", "x")]]),
        ("name: x", [[c("name", "x")]]),
        ("name:pre*", [[c("name", "pre", how="START_WITH")]]),
        ("name:*post", [[c("name", "post", how="END_WITH")]]),
        ("name:*in*", [[c("name", "in", how="CONTAIN")]]),
        (
            "name:a*b*c",
            [
                [
                    c("name", "a", how="START_WITH"),
                    c("name", "b", how="CONTAIN"),
                    c("name", "c", how="END_WITH"),
                ]
            ],
        ),
        ("name:*", [[c("name", how="EXISTS")]]),
        ("_exists_:name", [[c("name", how="EXISTS")]]),
        (r"name:a\.b\*", [[c("name", "a.b*")]]),
        (r"urn:urn\:li\:tag\:a*", [[c("urn", "urn:li:tag:a", how="START_WITH")]]),
        ("urn:urn:li:tag:a", [[c("urn", "urn:li:tag:a")]]),
        ("urn:li:tag:a", [[c("urn", "urn:li:tag:a")]]),
        (r'name:"a \"b\" (c)"^2', [[c("name", 'a "b" (c)')]]),
        ("name:x^1.5", [[c("name", "x")]]),
        ("metrics.auc:>0.9", [[c("metrics.auc", "0.9", how="GREATER_THAN")]]),
        ("m:>=1", [[c("m", "1", how="GREATER_THAN_OR_EQUAL_TO")]]),
        ("m:<1", [[c("m", "1", how="LESS_THAN")]]),
        ("m:<=1", [[c("m", "1", how="LESS_THAN_OR_EQUAL_TO")]]),
        ("m:{1 TO *}", [[c("m", "1", how="GREATER_THAN")]]),
        (
            "m:[1 TO 2}",
            [[c("m", "1", how="GREATER_THAN_OR_EQUAL_TO"), c("m", "2", how="LESS_THAN")]],
        ),
        ("a:1 b:2", [[c("a", "1"), c("b", "2")]]),
        ("a:1 && b:2", [[c("a", "1"), c("b", "2")]]),
        ("a:1 OR b:2", [[c("a", "1")], [c("b", "2")]]),
        ("a:1 || b:2 c:3", [[c("a", "1")], [c("b", "2"), c("c", "3")]]),
        ("(a:1 OR b:2) AND c:3", [[c("a", "1"), c("c", "3")], [c("b", "2"), c("c", "3")]]),
        ("a:(1 OR 2)", [[c("a", "1")], [c("a", "2")]]),
        ("a OR b*", [[c("_text", "a", how="CONTAIN")], [c("_text", "b", how="START_WITH")]]),
        ("-a", [[c("_text", "a", how="CONTAIN", negated=True)]]),
        ("a:1 OR (b c:2)", [[c("a", "1")], [c("_text", "b", how="CONTAIN"), c("c", "2")]]),
        ("tag:pii", [[c("tags", "pii")]]),
        ("NOT a:1", [[c("a", "1", negated=True)]]),
        ("-a:1", [[c("a", "1", negated=True)]]),
        ("!a:1", [[c("a", "1", negated=True)]]),
        ("NOT NOT a:1", [[c("a", "1")]]),
        ("-(a:1 b:2)", [[c("a", "1", negated=True)], [c("b", "2", negated=True)]]),
        ("-(a:1 OR b:2)", [[c("a", "1", negated=True), c("b", "2", negated=True)]]),
    ],
)
def test_fields_become_criteria(text: str, any_of: list[list[Criterion]]) -> None:
    assert read_query(text) == ReadQuery("*", tuple(map(tuple, any_of)))


def test_words_and_fields_stand_beside_each_other() -> None:
    assert read_query("churn name:x") == ReadQuery("churn", ((c("name", "x"),),))
    assert read_query("churn (a:1 OR b:2)").words == "churn"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-*", "matches nothing"),
        ("(a:1", "is not closed"),
        ("a:1)", "a '\\)' without a '\\('"),
        ("(", "syntax error at its end"),
        ("a:", "syntax error at its end"),
        ("a: )", "syntax error at '\\)'"),
        (":x", "syntax error at ':x'"),
        ('a:"x', "syntax error at '\"x'"),
        ("a:1 AND", "syntax error at its end"),
        ("OR a:1", "syntax error at 'OR"),
        ("NOT", "syntax error at its end"),
        ("m:[1 2]", "expected a range"),
        ("a:x?", r"'\?' in 'x\?' is not supported"),
        ("a:x~2", "'~' in 'x~2' is not supported"),
        ("(" * (QUERY_LEVELS + 1), "more than 20 levels"),
        ("(a:1 OR a:2) " * 10, f"more than {SEARCH_CRITERIA} alternatives"),
        ("-(a:1 b:2) " * 10, f"more than {SEARCH_CRITERIA} alternatives"),
    ],
)
def test_what_is_not_understood_is_named(text: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        read_query(text)


@given(st.text() | st.text(alphabet='ab :()[]{}"\\*?~^+-!&|<>ANDORT 1'))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parsed = read_query(text)
    except BadRequestError:
        return
    assert parsed.words


@given(st.text(min_size=1), st.text(min_size=1, alphabet="abc"))
def test_any_escaped_value_is_taken_as_it_is(value: str, field: str) -> None:
    escaped = "".join(f"\\{char}" for char in value)
    assert read_query(f"{field}:{escaped}") == ReadQuery("*", ((c(field, value),),))
