import pytest

from mlcat_ingest.catalog.search.query import Query, Term, parse_query
from mlcat_ingest.catalog.search.request import Condition, Criterion

ABOVE = Criterion("metrics.auc", ("0.9",), Condition.GREATER_THAN)


@pytest.mark.parametrize(
    ("text", "criterion"),
    [
        ("metrics.auc>0.9", ABOVE),
        ("metrics.val.auc>=0.9", Criterion("metrics.val.auc", ("0.9",),
                                           Condition.GREATER_THAN_OR_EQUAL_TO)),
        ("params.depth<3", Criterion("params.depth", ("3",), Condition.LESS_THAN)),
        ("hyperParams.depth<=3", Criterion("hyperParams.depth", ("3",),
                                           Condition.LESS_THAN_OR_EQUAL_TO)),
        ("params.opt=adam,sgd", Criterion("params.opt", ("adam", "sgd"), Condition.IEQUAL)),
        ("Platform:mlflow", Criterion("platform", ("mlflow",), Condition.IEQUAL)),
        ("owner:jane", Criterion("owners", ("jane",), Condition.IEQUAL)),
        ("-tag:old", Criterion("tags", ("old",), Condition.IEQUAL, negated=True)),
        ("tag!=old", Criterion("tags", ("old",), Condition.IEQUAL, negated=True)),
        ("-tag!=old", Criterion("tags", ("old",), Condition.IEQUAL)),
        ("tag:*", Criterion("tags", (), Condition.EXISTS)),
        ("tag:pi*", Criterion("tags", ("pi",), Condition.START_WITH)),
        ('name:"bold hare"', Criterion("name", ("bold hare",), Condition.CONTAIN)),
        ("tag:urn:li:tag:x", Criterion("tags", ("urn:li:tag:x",), Condition.IEQUAL)),
    ],
)  # fmt: skip
def test_conditions(text: str, criterion: Criterion) -> None:
    assert parse_query(text) == Query((), (criterion,))


def test_words_and_conditions_together() -> None:
    assert parse_query("metrics.auc>0.9 churn mod") == Query(
        (Term(("churn",)), Term(("mod",), prefix=True)), (ABOVE,), "churn mod"
    )
    assert parse_query("churn metrics.auc>0.9") == Query((Term(("churn",)),), (ABOVE,), "churn")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("churn_model", (Term(("churn", "model"), prefix=True),)),
        ("ChurnModel", (Term(("churn", "model"), "churnmodel", prefix=True),)),
        ('"churn model"', (Term(("churn", "model")),)),
        ('"churn mo', (Term(("churn", "mo"), prefix=True),)),
        ("foo:bar", (Term(("foo", "bar"), prefix=True),)),
        ("platform:", (Term(("platform",), prefix=True),)),
        ('tag:""', (Term(("tag",)),)),
        ("a>b", (Term(("a", "b"), prefix=True),)),
        ("metrics.auc", (Term(("metrics", "auc"), prefix=True),)),
        ("urn:li:tag:gold", (Term(("gold",), prefix=True),)),
    ],
)
def test_what_is_no_condition_is_words(text: str, terms: tuple[Term, ...]) -> None:
    assert parse_query(text).terms == terms
    assert parse_query(text).criteria == ()


@pytest.mark.parametrize("text", ["", "  ", "*", " * * "])
def test_nothing_and_a_star_ask_for_everything(text: str) -> None:
    assert parse_query(text) == Query()


@pytest.mark.parametrize("text", ["%", '"', '""', "-", "😀 ***"])
def test_signs_alone_find_nothing(text: str) -> None:
    assert parse_query(text) == Query(impossible=True)


def test_only_so_much_counts() -> None:
    assert len(parse_query("word " * 1000).terms) == 32
