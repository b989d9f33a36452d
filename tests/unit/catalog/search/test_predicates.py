"""Every field and condition that a search can be filtered by."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Text, null, type_coerce

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_PATTERNS, SEARCH_VALUES, SORT_KEYS
from mlcat_ingest.catalog.search import predicates
from mlcat_ingest.catalog.search.document import to_number
from mlcat_ingest.catalog.search.request import Condition, Criterion, SearchRequest, SortKey
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import feature, group, model, open_store, put
from support.searching import search, where

C = Condition
PARENT, CHILD = "urn:li:container:parent", "urn:li:container:child"
INSTANCE = "urn:li:dataPlatformInstance:(urn:li:dataPlatform:mlflow,eu)"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(open_store(tmp_path_factory.mktemp("catalog") / "c.db")) as store:
        _fill(store)
        yield store


def _fill(store: Store) -> None:
    put(store, PARENT, containerProperties={"name": "parent", "env": "DEV"})
    put(store, CHILD, containerProperties={"name": "child"}, container={"container": PARENT})
    put(
        store,
        model("full"),
        mlModelProperties={
            "name": "Bold Hare",
            "description": "tells who leaves",
            "type": "Lasso",
            "groups": [group("churn")],
            "mlFeatures": [feature("t", "age")],
            "created": {"time": 1000},
            "trainingMetrics": [{"name": "auc", "value": "0.90"}, {"name": "odd", "value": "nan"}],
            "onlineMetrics": [{"name": "auc", "value": "0.5"}],
            "hyperParams": [{"name": "opt", "value": "Adam"}],
            "hyperParameters": {"depth": {"int": 3}, "warm": {"boolean": True}},
            "customProperties": {
                "env": "QA",
                "mlcat.source": "mlflow:a:x,feast:b",
                "mlcat.features.resolvedBy": "tag",
                "note": "n",
            },
        },
        globalTags={"tags": [{"tag": "urn:li:tag:gold"}]},
        ownership={"owners": [{"owner": "urn:li:corpuser:jane", "type": "DATAOWNER"}]},
        container={"container": CHILD},
        dataPlatformInstance={"platform": "urn:li:dataPlatform:mlflow", "instance": INSTANCE},
        subTypes={"typeNames": ["Run"]},
        deprecation={"deprecated": True, "note": "", "actor": "urn:li:corpuser:jane"},
    )
    put(store, model("bare"), mlModelProperties={"created": {"time": 2000}})
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn"})


@pytest.mark.parametrize("query", ["*", "mlflow"])
@pytest.mark.parametrize(
    "criterion",
    [
        where("tags", "urn:li:tag:gold"),
        where("tags.keyword", "gold"),
        where("tags", "GOLD", condition=C.IEQUAL, negated=True),
        where("tags", "ol", condition=C.CONTAIN),
        where("tags", "go", condition=C.START_WITH),
        where("tags", "ld", condition=C.END_WITH),
        where("tags", condition=C.EXISTS),
        where("tags", "urn:li:tag:a", condition=C.GREATER_THAN),
        where("owners", "none", "jane", condition=C.IN),
        where("container", CHILD),
        where("browsePathV2", CHILD, condition=C.CONTAIN),
        where("platformInstance", INSTANCE),
        where("typeNames", "Run"),
        where("type", "lasso", condition=C.IEQUAL),
        where("deprecated", "true"),
        where("groups", group("churn")),
        where("groups", "Churn"),
        where("groups", condition=C.EXISTS),
        where("mlFeatures", feature("t", "age")),
        where("mlFeatures", "urn:li:mlFeature:(t,", condition=C.START_WITH),
        where("metrics.auc", "0.9"),
        where("metrics.auc", "0.8", condition=C.GREATER_THAN),
        where("metrics.auc", "0.9", condition=C.GREATER_THAN_OR_EQUAL_TO),
        where("metrics.auc", "1", condition=C.LESS_THAN),
        where("metrics.auc", "9e-1", condition=C.LESS_THAN_OR_EQUAL_TO),
        where("metrics.auc", condition=C.EXISTS),
        where("metrics.odd", "nan"),
        where("onlineMetrics.auc", "0.5"),
        where("hyperParams.opt", "adam", condition=C.IEQUAL),
        where("params.opt", "da", condition=C.CONTAIN),
        where("hyperParameters.depth", "3"),
        where("hyperParams.warm", "true"),
        where("customProperties", "env=QA"),
        where("customProperties", "env=", condition=C.START_WITH),
        where("customProperties", condition=C.EXISTS),
        where("customProperties", "mlcat.source=feast:b"),
        where("customProperties", "mlcat.features.resolvedBy=tag"),
        where("description", "tells who leaves"),
        where("description", "who le", condition=C.CONTAIN),
        where("description", "leaves", condition=C.END_WITH),
        where("name", "bold hare"),
        where("name", "ld h", condition=C.CONTAIN),
        where("urn", model("full")),
        where("created", "1500", condition=C.LESS_THAN),
        where("lastModified", "0", condition=C.GREATER_THAN),
    ],
    ids=repr,
)
def test_one_model_fits(filled: Store, query: str, criterion: Criterion) -> None:
    types = frozenset({"mlModel"})
    found = set(search(filled, query, criterion, entity_types=types))
    other = Criterion(criterion.field, criterion.values, criterion.condition, not criterion.negated)
    rest = set(search(filled, query, other, entity_types=types))
    both = {"full", "bare"}
    assert found | rest == both
    assert not found & rest
    expected = {"bare"} if criterion.condition is C.IEQUAL and criterion.negated else {"full"}
    assert found == (both if criterion.field == "lastModified" else expected)


@pytest.mark.parametrize(
    "criterion",
    [
        where("nothing", "x"),
        where("tags", "old"),
        where("metrics.none", "1"),
        where("metrics.auc", "high", condition=C.GREATER_THAN),
        where("metrics.odd", "0", condition=C.GREATER_THAN),
        where("description", "leaves who"),
        where("description", "a", condition=C.GREATER_THAN),
        where("customProperties", "mlcat.applied.x=1"),
        where("removed", "neither"),
        where("groups", "%"),
    ],
    ids=repr,
)
def test_nothing_fits(filled: Store, criterion: Criterion) -> None:
    assert search(filled, "*", criterion) == []


def test_the_environment_as_datahubs_client_asks_for_it(filled: Store) -> None:
    def of(env: str) -> list[str]:
        fields = ("origin", env), ("customProperties", f"env={env}"), ("env", env)
        present = where("removed", "true", negated=True)
        any_of = tuple((where(field, value), present) for field, value in fields)
        return sorted(search(filled, any_of=any_of))

    assert of("PROD") == ["bare", "churn", "full"]
    assert of("QA") == ["full"]
    assert of("DEV") == ["parent"]


@pytest.mark.parametrize("name", ["mlModel", "MLMODEL", "mlmodel"])
def test_entity_types_by_all_their_names(filled: Store, name: str) -> None:
    assert search(filled, "*", where("_entityType", name)) == ["full", "bare"]


def test_many_keywords_are_looked_up_instead(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicates, "MAX_TOKENS", 0)
    for query in ("*", "hare"):
        assert search(filled, query, where("tags", "gold"), include_removed=True) == ["full"]


def test_a_filter_has_its_limits(filled: Store) -> None:
    tagged = Criterion("tags", ("x",))
    patterns = Criterion("name", ("x",) * (SEARCH_PATTERNS + 1), Condition.CONTAIN)
    long = Criterion("name", ("x" * 1_001,), Condition.CONTAIN)
    many = Criterion("tags", tuple(map(str, range(SEARCH_VALUES + 1))))
    for request, sentence in (
        (SearchRequest(any_of=((many,),)), "too many values; the limit is 10000"),
        (SearchRequest(any_of=((tagged,) * (SEARCH_CRITERIA + 1),)), "too many criteria"),
        (SearchRequest(any_of=((tagged,),) * (SEARCH_CRITERIA + 1)), "too many criteria"),
        (SearchRequest(any_of=((patterns,),)), "too many patterns; the limit is 100"),
        (SearchRequest(any_of=((long,),)), "too long; the limit is 1000"),
        (SearchRequest(sort=(SortKey("urn"),) * (SORT_KEYS + 1)), "too many sort fields"),
    ):
        with pytest.raises(BadRequestError, match=sentence):
            filled.search(request)


@pytest.mark.parametrize(
    ("value", "read"),
    [("1", 1.0), ("1e3", 1000.0), (" 2 ", 2.0), (True, "true"), (False, "false"), (3, 3.0),
     ("nan", "nan"), ("-inf", "-inf"), ("1_000", "1_000"), ("adam", "adam"), ("", "")],
)  # fmt: skip
def test_numbers_are_numbers_where_they_read_as_finite_ones(
    value: object, read: float | str
) -> None:
    assert to_number(value) == read
    assert type(to_number(value)) is type(read)


def test_what_nobody_checked_is_passed_over(store: Store) -> None:
    odd = {
        "name": 3,
        "hyperParams": ["x", {"name": 3, "value": "1"}],
        "trainingMetrics": "none",
        "customProperties": {"a": 1, "b": None},
        "created": {"time": True},
        "description": ["in", "a", "list"],
    }
    put(store, "urn:li:post:p", postInfo=odd)
    assert search(store, "list") == ["p"]


def test_the_full_text_index_is_never_asked_for_nothing(store: Store) -> None:
    put(store, model("a"), mlModelProperties={"name": "churn"})
    # Every release of SQLite refuses this query; the old ones often do not come to it in a plan.
    nothing = predicates.matching(type_coerce(null(), Text))
    assert store.read(lambda sql: sql.scalars(nothing).all()) == []
    word = predicates.matching('"churn"')
    assert len(store.read(lambda sql: sql.scalars(word).all())) == 1
