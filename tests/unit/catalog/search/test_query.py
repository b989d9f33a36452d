import pytest

from mlcat_ingest.catalog.search.query import Query, Term, parse_query


def _begun(tokens: tuple[str, ...]) -> Term:
    return Term(tokens, prefix=True)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("churn_model", (Term(("churn", "model"), prefix=True),)),
        ("ChurnModel", (Term(("churn", "model"), "churnmodel", prefix=True),)),
        ('"churn model"', (Term(("churn", "model")),)),
        ('"churn mo', (Term(("churn", "mo"), prefix=True),)),
        ("foo:bar", (Term(("foo", "bar"), prefix=True),)),
        ("platform:", (Term(("platform",), prefix=True),)),
        ("b", (Term(("b",)),)),
        ("grid-2", (Term(("grid", "2"), prefix=True),)),
        ("a>b*", (Term(("a", "b"), prefix=True),)),
        ("chu* grid-3* model", (*map(_begun, (("chu",), ("grid", "3"), ("model",))),)),
        ('"chu*" model', (Term(("chu",)), _begun(("model",)))),
        ("metrics.auc", (Term(("metrics", "auc"), prefix=True),)),
        ("urn:li:tag:gold", (Term(("gold",), prefix=True),)),
    ],
)
def test_words_become_terms(text: str, terms: tuple[Term, ...]) -> None:
    assert parse_query(text).terms == terms


@pytest.mark.parametrize("text", ["", "  ", "*", " * * "])
def test_nothing_and_a_star_ask_for_everything(text: str) -> None:
    assert parse_query(text) == Query()


@pytest.mark.parametrize("text", ["%", '"', '""', "-", "😀 ***"])
def test_signs_alone_find_nothing(text: str) -> None:
    assert parse_query(text) == Query(impossible=True)


def test_only_so_much_counts() -> None:
    assert len(parse_query("word " * 1000).terms) == 32
