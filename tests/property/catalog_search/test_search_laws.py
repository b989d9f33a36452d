"""What holds of every search: nothing raises, and nothing that is there is missed."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.catalog.search import selection
from mlcat_ingest.catalog.search.document import IndexedEntity, make_document, to_number
from mlcat_ingest.catalog.search.request import (
    Condition,
    Criterion,
    SearchRequest,
    SortKey,
)
from mlcat_ingest.catalog.search.tokens import tokenize
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import model, open_store, put
from support.examples import examples
from support.searching import names, scroll

OPERATORS = [
    "AND",
    "OR",
    "NOT",
    "NEAR(a b)",
    '"',
    "*",
    "^",
    "{name}:",
    "(",
    ")",
    "+",
    "-",
    ":",
    "=",
]
FIELDS = [
    *(
        "name",
        "urn",
        "description",
        "tags",
        "owners",
        "platform",
        "origin",
        "_entityType",
        "removed",
    ),
    *("groups", "mlFeatures", "customProperties", "metrics.a", "hyperParams.b", "created", "env"),
    *("container", "glossaryTerms", "domains", "typeNames", "browsePathV2", "nothing", "", "a.b"),
]
words = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"[A-Za-z0-9_.@/ -]{1,20}", fullmatch=True),
    st.sampled_from(OPERATORS),
)
queries = st.lists(words, max_size=5).map(" ".join)
criteria = st.builds(
    Criterion,
    st.sampled_from(FIELDS).flatmap(lambda field: st.sampled_from([field, f"{field}.keyword"])),
    st.lists(words, max_size=3).map(tuple),
    st.sampled_from(Condition),
    st.booleans(),
)
filters = st.lists(st.lists(criteria, max_size=3).map(tuple), max_size=3).map(tuple)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder: Path = tmp_path_factory.mktemp("search")
    with closing(open_store(folder / "c.db")) as opened:
        for at in range(12):
            put(
                opened,
                model(f"run_{at}"),
                mlModelProperties={
                    "name": ["bold hare", "BoldHare", "bold_hare_2", "hare"][at % 4] + f" {at}",
                    "description": "a hare that is bold" if at % 3 else "AND OR NOT",
                    "trainingMetrics": [{"name": "a", "value": str(at / 10)}] if at % 2 else [],
                    "hyperParams": [{"name": "b", "value": "adam" if at % 2 else "3"}],
                    "customProperties": {"env": "DEV", "note": "hare"},
                },
                globalTags={"tags": [{"tag": f"urn:li:tag:t{at % 3}"}]},
                status={"removed": at == 11},
            )
        yield opened


def encodable(text: str) -> bool:
    return text.encode("utf-8", "ignore").decode() == text


@given(query=queries, any_of=filters, sort=st.sampled_from([*FIELDS, "metrics.a", "_added"]))
@settings(max_examples=examples(60))
def test_no_search_raises_and_all_orders_find_the_same(
    store: Store, query: str, any_of: tuple[tuple[Criterion, ...], ...], sort: str
) -> None:
    found = store.search(SearchRequest(query, any_of=any_of, count=50, facets=("tags", "nothing")))
    by_name = store.search(SearchRequest(query, any_of=any_of, count=50, sort=(SortKey(sort),)))
    assert found.total == len(found.hits) == len(set(names(found)))
    assert sorted(names(found)) == sorted(names(by_name))
    assert sorted(scroll(store, query, any_of=any_of)) == sorted(names(found))
    assert sorted(scroll(store, query, SortKey(sort), any_of=any_of)) == sorted(names(found))
    tags = Counter(f"urn:li:tag:t{int(name.removeprefix('run_')) % 3}" for name in names(found))
    assert dict(found.facets[0].counts) == tags


@given(query=queries, any_of=filters)
@settings(max_examples=examples(25))
def test_how_common_words_are_changes_the_order_only(
    store: Store, query: str, any_of: tuple[tuple[Criterion, ...], ...]
) -> None:
    request = SearchRequest(query, any_of=any_of, count=50)
    # Of a common word what else begins so is not looked for; so the last one is complete here.
    complete = SearchRequest(f'{query} "hare"', any_of=any_of, count=50)
    rare = store.search(complete)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "FEW", 2)
        patch.setattr("mlcat_ingest.catalog.search.pages.RANKED", 2)
        common = store.search(complete)
        store.search(request)
        pages = [
            name
            for start in range(0, common.total, 2)
            for name in names(
                store.search(SearchRequest(complete.query, any_of=any_of, start=start, count=2))
            )
        ]
    assert sorted(names(common)) == sorted(names(rare)) == sorted(pages)


@given(
    texts=st.lists(st.text(max_size=30).filter(encodable), min_size=3, max_size=3),
    tag=st.from_regex(r"[A-Za-z0-9_. @-]{1,15}", fullmatch=True),
)
@settings(max_examples=examples(25))
def test_an_entity_is_found_by_every_token_and_every_text_it_has(
    store: Store, texts: list[str], tag: str
) -> None:
    name, description, value = texts
    aspects: dict[str, Any] = {
        "mlModelProperties": {
            "name": name,
            "description": description,
            "customProperties": {"key": value},
        },
        "globalTags": {"tags": [{"tag": f"urn:li:tag:{tag.strip() or 'x'}"}]},
    }
    urn = put(store, model("the one"), **aspects)
    document = make_document(IndexedEntity(urn, "mlModel", 1, 1, aspects))
    tokens = {token for column in document.columns for token in column.split()}
    wanted = [token for token in tokens if not token.startswith("=")]
    wanted += [f'"{one}"' for one in (*texts, tag, urn) if '"' not in one and tokenize(one).parts]
    for query in wanted:
        found = store.search(SearchRequest(query, count=50))
        assert urn in [hit.urn for hit in found.hits], query
    store.delete(urn)


@given(text=st.text(max_size=40))
def test_tokens_are_stable(text: str) -> None:
    parts, wholes = tokenize(text)
    for token in (*parts, *wholes):
        assert token
        assert not set(token) & set(' "=*^():+-')
        again = tokenize(token)
        assert again.parts == [token] or "".join(again.parts) == token


@given(
    st.lists(
        st.one_of(
            st.text(alphabet='0123456789.,-+eE_[]{}": \\ntrufals', max_size=8),
            st.floats().map(str),
            st.integers().map(str),
            st.sampled_from(
                ["1e999", "-0", "9" * 400, "9" * 5000, "NaN", "null", "true", '1,"', '2"']
            ),
            st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.just([1])),
        ),
        max_size=4,
    )
)
def test_numbers_are_read_together_as_each_alone(values: list[Any]) -> None:
    metrics = [{"name": f"m{at}", "value": value} for at, value in enumerate(values)]
    aspects: dict[str, Any] = {"mlModelProperties": {"trainingMetrics": metrics}}
    document = make_document(IndexedEntity(model("m"), "mlModel", 1, 1, aspects))
    read = [value for numbers in document.numeric_fields for value in numbers.values]
    assert read == [*map(to_number, values)]
    assert [*map(type, read)] == [type(to_number(value)) for value in values]
