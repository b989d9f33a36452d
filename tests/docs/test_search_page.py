"""The page on the pages and search: each example finds something, and the API reads it."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.search.language import read_query
from mlcat_ingest.catalog.search.request import SearchPage, SearchRequest
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import feature, group, model, open_store, put

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "search.md").read_text()
SECTIONS = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE))


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def first_column(heading: str) -> list[str]:
    """Return the code of the first column of the table under this heading row."""
    rows = re.search(rf"(?m)^\| {heading} \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE)
    assert rows is not None
    return [span for row in rows[1].splitlines() for span in spans(row.split(" | ")[0])]


def in_words(sentence: str) -> list[str]:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(sentence)]
    return spans(line)


(BLOCK,) = re.findall(r"(?m)^    (\S.*)$", SECTIONS["Search"])
FIELDS = [field for field in first_column("field") if "<" not in field]
SCANNED = [
    span
    for line in SECTIONS["Filters without an index"].splitlines()
    if line.startswith("- ")
    for span in spans(line)
]
INDEXED = in_words("Words, or a field that an index answers")
EXAMPLES = (BLOCK, *first_column("write"), *in_words("A backslash, or quotes"), *SCANNED, *INDEXED)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(open_store(tmp_path_factory.mktemp("catalog") / "c.db")) as opened:
        time = {"time": 1_750_000_000_000}
        wine = {"name": "wine", "created": time, "lastModified": time}
        put(opened, model("wine"), mlModelProperties=wine)
        churn = put(
            opened,
            group("churn"),
            mlModelGroupProperties={"name": "churn", "created": time},
        )
        for at, auc in enumerate((0.85, 0.9, 0.95)):
            put(
                opened,
                model(f"m{at}"),
                mlModelProperties={
                    "name": "bold hare",
                    "description": "A churn model: which customer leaves.",
                    "groups": [churn] if at else [],
                    "mlFeatures": [feature("drivers", "conv_rate")],
                    "trainingMetrics": [
                        {"name": "auc", "value": str(auc)},
                        {"name": "best iteration", "value": "300"},
                    ],
                    "hyperParams": [{"name": "depth", "value": "8"}],
                    "customProperties": {"team": "growth", "mlflow.status": "FAILED"},
                    "created": {"time": 1_770_000_000_000},
                },
                globalTags={"tags": [{"tag": f"urn:li:tag:{'pii' if at else 'raw'}"}]},
                ownership={"owners": [{"owner": "urn:li:corpuser:jane", "type": "DATAOWNER"}]},
            )
        yield opened


def search(store: Store, text: str, *, strict: bool = True) -> SearchPage:
    words, any_of = read_query(text, strict=strict)
    return store.search(SearchRequest(words, any_of=any_of))


@pytest.mark.parametrize("text", EXAMPLES)
def test_each_example_finds_some_entities_and_not_all_of_them(store: Store, text: str) -> None:
    everything = search(store, "*").total
    assert 0 < search(store, text).total <= everything
    if not text.startswith(("-", "NOT")) and "!=" not in text:
        assert search(store, text).total < everything


def test_the_examples_are_those_of_the_page() -> None:
    assert len(EXAMPLES) > 30
    assert {"metrics.auc:[0.8 TO 0.9]", "churn model", "group:*churn*"} <= {*EXAMPLES}


@pytest.mark.parametrize("text", EXAMPLES)
def test_each_example_is_understood_over_the_api(text: str) -> None:
    assert read_query(text) != read_query("")


@pytest.mark.parametrize(
    ("text", "full_scan"), [*((text, True) for text in SCANNED), *((t, False) for t in INDEXED)]
)
def test_what_the_page_says_of_indexes_is_so(store: Store, text: str, *, full_scan: bool) -> None:
    assert search(store, text).full_scan is full_scan


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_exists(field: str) -> None:
    number = field in {"created", "lastModified", "duration_ms"}
    assert read_query(f"{field}:{1 if number else 'x'}").any_of


def test_the_filter_of_a_group_is_an_example(store: Store) -> None:
    (text,) = in_words("The list of the models of a group has a filter")[:1]
    assert search(store, text).total == 1


def test_each_picture_is_there() -> None:
    pictures = re.findall(r"\]\(\.\./images/(.*?)\)", PAGE)
    assert "search.png" in pictures
    assert all((REFERENCE.parent / "images" / name).exists() for name in pictures)
