import base64
import json
from typing import Any

import pytest

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.search.language import read_query
from mlcat_ingest.catalog.search.request import Condition, SearchRequest, SortKey
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import group, model, put, put_test
from support.searching import names, scroll, search, where


def hares(store: Store) -> None:
    """Write a group `churn_model_v2` and models m0, m1, ... of it, m4 marked as removed."""
    put(store, group("churn_model_v2"), mlModelGroupProperties={"description": "who leaves"})
    for at in range(10):
        properties = {
            "name": f"bold-hare-{at}",
            "description": "a churn model" if at % 2 else "something else",
            "groups": [group("churn_model_v2")],
            "trainingMetrics": [{"name": "auc", "value": str(at / 10)}],
            "hyperParams": [{"name": "max_depth", "value": str(at)}],
            "customProperties": {"git.commit": f"abc{at}", "mlcat.source": "mlflow:s:default"},
        }
        put(store, model(f"m{at}"), mlModelProperties=properties)
    put(store, model("m3"), globalTags={"tags": [{"tag": "urn:li:tag:gold"}]})
    put(store, model("m4"), status={"removed": True})


def test_everything_matches_a_star_but_what_is_removed(store: Store) -> None:
    hares(store)
    there = ["churn_model_v2", "m0", "m1", "m2", "m3", "m5", "m6", "m7", "m8", "m9"]
    assert search(store) == search(store, "") == search(store, " * ") == there
    assert search(store, include_removed=True) == [*there[:5], "m4", *there[5:]]
    assert search(store, "*", where("removed", "true"), include_removed=True) == ["m4"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("churn_model_v2", ["churn_model_v2"]),
        ("Churn Model V2", ["churn_model_v2"]),
        ("churn_mod", ["churn_model_v2", "m1", "m3", "m5", "m7", "m9"]),
        ("bold-hare-3", ["m3"]),
        (model("m3"), ["m3"]),
        ("urn:li:tag:gold", ["m3"]),
        ("git.commit=abc3", ["m3"]),
        ("leaves", ["churn_model_v2"]),
        ("bold-hare-3*", ["m3"]),
        ("churn_model_v", ["churn_model_v2"]),
        ("v", []),
        ("some* hare-2", ["m2"]),
        ("some hare-2", []),
        ("%", []),
        ("nothing like it", []),
    ],
)
def test_words_find_what_has_them(store: Store, query: str, found: list[str]) -> None:
    hares(store)
    assert sorted(search(store, query)) == found


def test_a_star_finds_longer_words_too_where_very_many_have_the_word(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.search.selection.FEW", 2)
    for name in ("train-a", "train-b", "train-c", "training"):
        put(store, model(name), mlModelProperties={"name": name})
    assert sorted(search(store, "train")) == ["train-a", "train-b", "train-c"]
    assert sorted(search(store, "train*")) == ["train-a", "train-b", "train-c", "training"]


@pytest.mark.parametrize("query", ["*", "hare"])
def test_words_and_criteria_hold_together(store: Store, query: str) -> None:
    hares(store)
    above = where("metrics.auc", "0.7", condition=Condition.GREATER_THAN)
    assert sorted(search(store, query, above)) == ["m8", "m9"]
    assert sorted(search(store, query, above, where("hyperParams.max_depth", "8"))) == ["m8"]
    assert search(store, query, where("tags", "gold")) == ["m3"]
    assert search(store, query, where("groups", group("churn_model_v2")), above)
    assert search(store, query, where("nothing", "x")) == []
    assert len(search(store, query, entity_types=frozenset({"mlModel"}))) == 9


@pytest.mark.parametrize("sort", [(), (SortKey("metrics.auc", descending=True),)])
@pytest.mark.parametrize("query", ["*", "hare", "churn"])
def test_a_scroll_gives_each_once(store: Store, query: str, sort: tuple[SortKey, ...]) -> None:
    hares(store)
    assert sorted(scroll(store, query, *sort)) == sorted(search(store, query))


def test_a_scroll_id_of_another_search(store: Store) -> None:
    hares(store)
    after = store.search(SearchRequest(count=2)).next_scroll
    for request in (SearchRequest("hare", after=after), SearchRequest(after="junk")):
        with pytest.raises(BadRequestError, match="scroll id"):
            store.search(request)


@pytest.mark.parametrize(
    ("place", "is_refused"),
    [({}, True), ([], True), (True, True), (2**70, True), ("x", False), (None, False), (-1, False)],
)
def test_a_forged_scroll_id(store: Store, place: Any, is_refused: bool) -> None:  # noqa: FBT001
    """Anybody may make one up: it leads to a refusal, or to entities of the same search."""
    hares(store)
    given = store.search(SearchRequest(count=1, scroll=True)).next_scroll
    mark, *values = json.loads(base64.urlsafe_b64decode(given or ""))
    forged = base64.urlsafe_b64encode(json.dumps([mark, *[place] * len(values)]).encode()).decode()
    request = SearchRequest(count=50, scroll=True, after=forged)
    if is_refused:
        with pytest.raises(BadRequestError, match="invalid scroll id"):
            store.search(request)
    else:
        assert set(names(store.search(request))) <= set(scroll(store, "*"))


def test_what_is_deleted_is_not_found(store: Store) -> None:
    hares(store)
    store.delete(model("m3"))
    assert search(store, "gold") == []
    put(store, model("m3"), mlModelProperties={"name": "back again"})
    assert search(store, "back") == ["m3"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("metrics.auc>0.7 hare", ["m8", "m9"]),
        ("metrics.auc:>0.7 hare", ["m8", "m9"]),
        ("tag:GOLD", ["m3"]),
        ("bold-hare-3 -platform:feast", ["m3"]),
        ("type:mlmodelgroup churn_model_v2", ["churn_model_v2"]),
        ("group:churn_model_v2 params.max_depth=8", ["m8"]),
        ("property:git.commit=abc5", ["m5"]),
        ('"a churn model" OR tag:gold', ["m1", "m3", "m5", "m7", "m9"]),
    ],
)
def test_conditions_among_the_words(store: Store, text: str, found: list[str]) -> None:
    hares(store)
    words, any_of = read_query(text, strict=True)
    page = store.search(SearchRequest(words, any_of=any_of, count=50))
    assert sorted(names(page)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('tag:"ready (prod)"', ["m3"]),
        ("tag:GOLDEN,none", ["m3"]),
        ("tag:u1", ["m3"]),
        ("-tag:golden name:hare-3", []),
        ('owner:"Jane D."', ["m3"]),
        ("owner:golden", []),
    ],
)
def test_tags_and_people_are_found_by_their_names_too(
    store: Store, text: str, found: list[str]
) -> None:
    hares(store)
    named = {"urn:li:tag:u1": "Golden", "urn:li:tag:ready %28prod%29": "ready (prod)"}
    for urn, name in named.items():
        put(store, urn, tagProperties={"name": name})
    put(store, "urn:li:corpuser:j", corpUserInfo={"active": True, "displayName": "Jane D."})
    owner = {"owner": "urn:li:corpuser:j", "type": "DATAOWNER"}
    tags = {"tags": [{"tag": urn} for urn in named]}
    put(store, model("m3"), globalTags=tags, ownership={"owners": [owner]})
    words, any_of = read_query(text, strict=True)
    only = frozenset(["mlModel"])
    page = store.search(SearchRequest(words, any_of=any_of, count=50, entity_types=only))
    assert names(page) == found


def test_the_name_goes_before_all_else_and_names_go_before_texts(store: Store) -> None:
    tagged = {"tags": [{"tag": "urn:li:tag:churn"}]}
    put(store, model("p"), mlModelProperties={"name": "x", "customProperties": {"a": "churn"}})
    put(store, model("t"), mlModelProperties={"name": "x"}, globalTags=tagged)
    put(store, model("d"), mlModelProperties={"name": "x", "description": "about churn"})
    put(store, model("in"), mlModelProperties={"name": "old churn"})
    put(store, model("begins"), mlModelProperties={"name": "churn-2"})
    put(store, model("is"), mlModelProperties={"name": "Churn"})
    assert search(store, "churn") == ["is", "begins", "in", "d", "t", "p"]


def test_within_a_field_the_shorter_text_goes_first(store: Store) -> None:
    long = "churn and very many other words that nobody asked for at all"
    put(store, model("long"), mlModelProperties={"name": "x", "description": long})
    put(store, model("short"), mlModelProperties={"name": "x", "description": "churn"})
    assert search(store, "churn") == ["short", "long"]


def test_hits_say_which_texts_were_hit(store: Store) -> None:
    hares(store)
    (hit,) = store.search(SearchRequest("gold hare-3 abc3")).hits
    assert hit.matched == (
        ("name", "bold-hare-3"),
        ("tags", "urn:li:tag:gold"),
        ("customProperties", "git.commit=abc3"),
    )
    assert store.search(SearchRequest("gold", highlight=False)).hits[0].matched == ()


def test_a_scroll_goes_on_where_it_was_while_others_write(store: Store) -> None:
    hares(store)
    first = store.search(SearchRequest(count=4, scroll=True))
    store.delete(model("m0"))
    put(store, model("new"), mlModelProperties={"name": "bold-hare-new"})
    rest = store.search(SearchRequest(count=40, scroll=True, after=first.next_scroll))
    assert [*names(first), *names(rest)] == [
        *("churn_model_v2", "m0", "m1", "m2", "m3", "m5", "m6", "m7", "m8", "m9"),
        "new",
    ]


CHAMPION = {
    "versionSet": "urn:li:versionSet:(hares,mlModel)",
    "version": {"versionTag": "3"},
    "aliases": [{"versionTag": "champion"}],
    "sortId": "3",
    "versioningScheme": "ALPHANUMERIC_GENERATED_BY_DATAHUB",
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *(
            ("alias:champion", True),
            ("alias:CHAMPION", True),
            ("alias:*", True),
            ("champion", True),
        ),
        *(("version:3", True), ("alias:3", False), ("version:champion", False)),
        ("aliases:champion", True),
    ],
)
def test_aliases_and_versions_are_different_fields(store: Store, text: str, *, found: bool) -> None:
    put(store, model("m"), mlModelProperties={"name": "m"}, versionProperties=CHAMPION)
    words, any_of = read_query(text, strict=True)
    page = store.search(SearchRequest(words, any_of=any_of, facets=("aliases", "version")))
    assert [hit.urn for hit in page.hits if hit.urn == model("m")] == [model("m")] * found
    if found:
        assert [facet.counts for facet in page.facets] == [(("champion", 1),), (("3", 1),)]


@pytest.fixture
def tested(store: Store) -> Store:
    for name in ("t", "u"):
        put_test(store, name)
    results = {"both": ("t", "u"), "failing": ("t", ""), "passing": ("", "t"), "gone": ("x", "x")}
    for name, tests in results.items():
        sides = zip(("failing", "passing"), tests, strict=True)
        value = {
            side: [{"test": f"urn:li:test:{test}", "type": "FAILURE"}] if test else []
            for side, test in sides
        }
        properties = {"name": name, "groups": [group("g" if name == "both" else "h")]}
        put(store, model(name), mlModelProperties=properties, testResults=value)
    return store


@pytest.mark.parametrize("few", [0, 20_000])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tests:failing", ["both", "failing"]),
        ("tests:FAILING type:mlModel", ["both", "failing"]),
        ("tests:passing", ["both", "passing"]),
        ("tests:*", ["both", "failing", "passing"]),
        ("-tests:failing type:mlModel", ["passing", "gone"]),
        ("passing -tests:failing", ["passing"]),
        ("tests:failing,passing", ["both", "failing", "passing"]),
        ("tests:fail*", []),
        ("tests:other", []),
    ],
)
def test_entities_are_found_by_the_outcome_of_their_tests(
    tested: Store, monkeypatch: pytest.MonkeyPatch, few: int, text: str, found: list[str]
) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.search.selection.FEW", few)
    words, any_of = read_query(text, strict=True)
    page = tested.search(SearchRequest(words, any_of=any_of))
    assert [hit.urn for hit in page.hits] == [model(name) for name in found]


def test_groups_and_outcomes_are_counted_where_few_are_found(
    tested: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SearchRequest(facets=("groups", "tests"), entity_types=frozenset({"mlModel"}))
    assert [facet.counts for facet in tested.search(request).facets] == [
        ((group("h"), 3), (group("g"), 1)),
        (("failing", 2), ("passing", 2)),
    ]
    monkeypatch.setattr("mlcat_ingest.catalog.search.search._MAX_EDGE_HITS", 3)
    assert [facet.counts for facet in tested.search(request).facets] == [(), ()]


def test_tests_come_behind_what_they_are_named_after(store: Store) -> None:
    for name in ("churn", "churn has an owner", "models of churn"):
        put_test(store, name)
    for name in ("churn-xgb", "old churn model that was trained once and never again"):
        put(store, model(name.replace(" ", "-")), mlModelProperties={"name": name})
    assert [hit.urn.partition(":li:")[2].split(":")[0] for hit in store.search(
        SearchRequest("churn")).hits] == ["mlModel", "test", "test", "mlModel", "test"]  # fmt: skip
