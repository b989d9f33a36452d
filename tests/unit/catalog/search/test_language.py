"""Elasticsearch's query syntax, read into words and criteria."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import QUERY_LEVELS, SEARCH_CRITERIA
from mlcat_ingest.catalog.search.fields import DURATION
from mlcat_ingest.catalog.search.language import ReadQuery, read_query
from mlcat_ingest.catalog.search.predicates import SEARCHABLE, TIMES
from mlcat_ingest.catalog.search.request import Condition, Criterion


def c(field: str, *values: str, how: str = "", negated: bool = False) -> Criterion:
    return Criterion(field, values, Condition(how or "IEQUAL"), negated)


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
        ("chu* model", "chu* model"),
        ('"churn model" x', '"churn model" x'),
        ('x "churn:model"', 'x "churn:model"'),
        ("churn urn:li:tag:x", "churn urn:li:tag:x"),
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
        ("urn:urn:li:tag:a", [[c("urn", "urn:li:tag:a", how="EQUAL")]]),
        ("urn:li:tag:a", [[c("urn", "urn:li:tag:a", how="EQUAL")]]),
        (r'name:"a \"b\" (c)"^2', [[c("name", 'a "b" (c)')]]),
        ("name:x^1.5", [[c("name", "x")]]),
        ("metrics.auc:>0.9", [[c("metrics.auc", "0.9", how="GREATER_THAN")]]),
        ("metrics.m:>=1", [[c("metrics.m", "1", how="GREATER_THAN_OR_EQUAL_TO")]]),
        ("metrics.m:<1", [[c("metrics.m", "1", how="LESS_THAN")]]),
        ("metrics.m:<=1", [[c("metrics.m", "1", how="LESS_THAN_OR_EQUAL_TO")]]),
        ("metrics.m:{1 TO *}", [[c("metrics.m", "1", how="GREATER_THAN")]]),
        (
            "metrics.m:[1 TO 2}",
            [
                [
                    c("metrics.m", "1", how="GREATER_THAN_OR_EQUAL_TO"),
                    c("metrics.m", "2", how="LESS_THAN"),
                ]
            ],
        ),
        ("name:1 platform:2", [[c("name", "1"), c("platform", "2")]]),
        ("name:1 && platform:2", [[c("name", "1"), c("platform", "2")]]),
        ("name:1 OR platform:2", [[c("name", "1")], [c("platform", "2")]]),
        (
            "name:1 || platform:2 version:3",
            [[c("name", "1")], [c("platform", "2"), c("version", "3")]],
        ),
        (
            "(name:1 OR platform:2) AND version:3",
            [[c("name", "1"), c("version", "3")], [c("platform", "2"), c("version", "3")]],
        ),
        ("name:(1 OR 2)", [[c("name", "1")], [c("name", "2")]]),
        ("a OR b*", [[c("_text", "a", how="CONTAIN")], [c("_text", "b", how="START_WITH")]]),
        ("-a", [[c("_text", "a", how="CONTAIN", negated=True)]]),
        (
            "name:1 OR (b version:2)",
            [[c("name", "1")], [c("_text", "b", how="CONTAIN"), c("version", "2")]],
        ),
        ("tag:pii", [[c("tags", "pii")]]),
        ("NOT name:1", [[c("name", "1", negated=True)]]),
        ("-name:1", [[c("name", "1", negated=True)]]),
        ("!name:1", [[c("name", "1", negated=True)]]),
        ("NOT NOT name:1", [[c("name", "1")]]),
        (
            "-(name:1 platform:2)",
            [[c("name", "1", negated=True)], [c("platform", "2", negated=True)]],
        ),
        (
            "-(name:1 OR platform:2)",
            [[c("name", "1", negated=True), c("platform", "2", negated=True)]],
        ),
    ],
)
def test_fields_become_criteria(text: str, any_of: list[list[Criterion]]) -> None:
    assert read_query(text) == ReadQuery("*", tuple(map(tuple, any_of)))


def test_words_and_fields_stand_beside_each_other() -> None:
    assert read_query("churn name:x") == ReadQuery("churn", ((c("name", "x"),),))
    assert read_query("churn (tag:1 OR tag:2)").words == "churn"


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("text", "criterion"),
    [
        ("metrics.auc>0.9", c("metrics.auc", "0.9", how="GREATER_THAN")),
        ("metrics.auc:>0.9", c("metrics.auc", "0.9", how="GREATER_THAN")),
        ("metrics.auc > 0.9", c("metrics.auc", "0.9", how="GREATER_THAN")),
        ("metrics.auc: > 0.9", c("metrics.auc", "0.9", how="GREATER_THAN")),
        ('metrics."best it">2', c("metrics.best it", "2", how="GREATER_THAN")),
        ('metrics."auc" = 2', c("metrics.auc", "2")),
        (r'params."a\"b":2', c('params.a"b', "2")),
        ('metrics.auc>="1e-3"', c("metrics.auc", "1e-3", how="GREATER_THAN_OR_EQUAL_TO")),
        ("params.depth<3", c("params.depth", "3", how="LESS_THAN")),
        ("hyperParams.depth<=3", c("hyperParams.depth", "3", how="LESS_THAN_OR_EQUAL_TO")),
        ("params.depth=3,4", c("params.depth", "3", "4")),
        ("Platform:mlflow", c("platform", "mlflow")),
        ("owner:jane", c("owners", "jane")),
        ("-tag:old", c("tags", "old", negated=True)),
        ("tag!=old,new", c("tags", "old", "new", negated=True)),
        ("-tag!=old", c("tags", "old")),
        ("tag:*", c("tags", how="EXISTS")),
        ("tag:pi*", c("tags", "pi", how="START_WITH")),
        ("tag:urn:li:tag:x", c("tags", "urn:li:tag:x", how="EQUAL")),
    ],
)
def test_both_spellings_of_conditions(text: str, criterion: Criterion, strict: bool) -> None:  # noqa: FBT001
    assert read_query(text, strict=strict) == ReadQuery("*", ((criterion,),))
    assert read_query(f"churn {text}", strict=strict) == ReadQuery("churn", ((criterion,),))


@pytest.mark.parametrize("text", ['name="bold hare"', r"name:bold\ hare"])
def test_who_types_gives_a_part_of_a_name(text: str) -> None:
    assert read_query(text).any_of == ((c("name", "bold hare"),),)
    assert read_query(text, strict=True).any_of == ((c("name", "bold hare", how="CONTAIN"),),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("experiment:credit-risk", "no field `experiment`; did you mean `group`?"),
        ("owner:alice foo:bar", "known: alias, domain, env, feature, group, kind, owner,"),
        ("max_depth=8", "for a parameter write `params.max_depth`, for a metric `metrics.max_"),
        ("param.depth>0.9", "no field `param.depth`; did you mean `params.depth`?"),
        ("metric.auc:>1", "no field `metric.auc`; did you mean `metrics.auc`?"),
        ("staus:FAILED", "no field `staus`; did you mean `status`?"),
        ("ownr:jane", "no field `ownr`; did you mean `owner`?"),
        ("_exists_:descripton", "no field `descripton`; did you mean `description`?"),
        ("metrics.auc>abc", "metrics.auc is compared with a number, not 'abc'"),
        ("params.depth=3,x", "params.depth is compared with a number, not 'x'"),
        ("metrics.auc:[a TO 2]", "metrics.auc is compared with a number, not 'a'"),
        ("created:>yesterday", "created is compared with a number, not 'yesterday'"),
        ("metrics.auc>", "syntax error at its end"),
        ("metrics.auc>(1 OR 2)", "a value is expected behind a sign of comparison"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_mistyped_is_named_on_pages_and_over_the_api(
    text: str,
    message: str,
    strict: bool,  # noqa: FBT001
) -> None:
    with pytest.raises(BadRequestError) as caught:
        read_query(text, strict=strict)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-*", "matches nothing"),
        ("(name:1", "is not closed"),
        ("name:1)", "a '\\)' without a '\\('"),
        ("(", "syntax error at its end"),
        ("name:", "syntax error at its end"),
        ("name: )", "syntax error at '\\)'"),
        (":x", "syntax error at ':x'"),
        ('name:"x', "a quote is not closed at '\"x'"),
        ("name:1 AND", "syntax error at its end"),
        ("OR name:1", "syntax error at 'OR"),
        ("NOT", "syntax error at its end"),
        ("metrics.m:[1 2]", "expected a range"),
        ("name:x?", r"'\?' in 'x\?' is not supported"),
        ("name:x~2", "'~' in 'x~2' is not supported"),
        ("(" * (QUERY_LEVELS + 1), "more than 20 levels"),
        ("(name:1 OR name:2) " * 10, f"more than {SEARCH_CRITERIA} alternatives"),
        ("-(name:1 platform:2) " * 10, f"more than {SEARCH_CRITERIA} alternatives"),
    ],
)
def test_what_is_not_understood_is_named(text: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        read_query(text)


@given(st.text() | st.text(alphabet='ab :()[]{}"\\*?~^+-!=&|<>ANDORT 1'), st.booleans())
def test_any_text_is_read_or_refused(text: str, strict: bool) -> None:  # noqa: FBT001
    try:
        parsed = read_query(text, strict=strict)
    except BadRequestError:
        return
    assert parsed.words


@given(st.text(min_size=1), st.sampled_from(sorted(SEARCHABLE - TIMES.keys() - {"type", DURATION})))
def test_any_escaped_value_is_taken_as_it_is(value: str, field: str) -> None:
    escaped = "".join(f"\\{char}" for char in value)
    how = "EQUAL" if value.startswith("urn:li:") else ""
    assert read_query(f"{field}:{escaped}") == ReadQuery("*", ((c(field, value, how=how),),))
