"""Names that hide or reorder, pages behind the end of a list, and sections that do not exist."""

import re
from html import unescape

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.text import is_visible, visible
from support.catalog_store import group, model, put
from support.pages import at, get, page

CHURN = group("g")
REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202eevil", "⟨U+202E⟩evil"),
        ("a\u2069b", "a⟨U+2069⟩b"),
        ("\u200b", "⟨U+200B⟩"),
        ("\u2060\u3164", "⟨U+2060⟩⟨U+3164⟩"),
        ("\ufeff" * 50, "⟨U+FEFF⟩" * 8),
        ("e\u200dvil", "e\u200dvil"),
        ("\u200f\u05de\u05d5\u05d3\u05dc", "\u200f\u05de\u05d5\u05d3\u05dc"),
        ("plain", "plain"),
        ("", ""),
        ("  ", "  "),
    ],
)
def test_marks_that_reorder_or_stand_alone_are_named(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("mark", REORDERING)
def test_no_page_passes_on_a_mark_that_reorders(store: Store, mark: str) -> None:
    name = f"{mark}evil"
    put(store, CHURN, mlModelGroupProperties={"name": name})
    for index in range(2):
        put(
            store,
            model(f"m{index}"),
            mlModelProperties={
                "name": name,
                "groups": [CHURN],
                "customProperties": {name: name},
                "trainingMetrics": [{"name": name, "value": str(index)}],
                "created": {"time": index * 1_000_000_000},
            },
            subTypes={"typeNames": [name]},
            browsePathsV2={"path": [{"id": name}]},
        )
    for target in (at(CHURN), at(model("m0")), "/kind/mlModel", "/search?q=evil"):
        text = get(store, target).text
        assert "evil" in text
        # The input of the search box and of choices keep what is sent again.
        assert mark not in re.sub(r"<(input|option)[^>]*>[^<]*", "", text)
        assert mark not in unescape(re.findall(r"<title>(.*?)</title>", text)[0])
    assert mark not in get(store, "/search/suggest?q=evil").text


def test_a_name_that_nobody_sees_is_the_one_in_the_urn(store: Store) -> None:
    put(store, CHURN, mlModelGroupProperties={"name": "\u200b"})
    put(store, model("m"), mlModelProperties={"name": "\u2060\u3164", "groups": [CHURN]})
    assert page(store, "/kind/mlModelGroup").links[at(CHURN)] == "g"
    assert page(store, at(CHURN)).links[at(model("m"))] == "m"
    blank = put(store, group("\u200b"), mlModelGroupProperties={"name": "\u200b"})
    link = page(store, "/kind/mlModelGroup").links[at(blank)]
    assert is_visible(link)


def test_a_version_set_is_called_like_the_model_of_its_versions(store: Store) -> None:
    versions = "urn:li:versionSet:(0123456789abcdef,mlModel)"
    put(store, CHURN, mlModelGroupProperties={"name": "Churn model"})
    put(
        store,
        model("churn_1"),
        mlModelProperties={"name": "churn_1", "groups": [CHURN]},
        versionProperties={
            "versionSet": versions,
            "version": {"versionTag": "1"},
            "sortId": "AAAAAAAA",
            "versioningScheme": "ALPHANUMERIC_GENERATED_BY_DATAHUB",
        },
    )
    assert page(store, "/kind/versionSet").links[at(versions)] == "Churn model"
    assert "<h1><bdi>Churn model</bdi></h1>" in get(store, at(versions)).text


@pytest.mark.parametrize(
    "target", ["/kind/mlModel", "/search?q=churn", at(CHURN), at(CHURN, "?filter=churn")]
)
def test_a_page_behind_the_end_leads_to_the_last_one(store: Store, target: str) -> None:
    put(store, CHURN, mlModelGroupProperties={"name": "fraud"})
    for index in range(51):
        put(store, model(f"m{index}"), mlModelProperties={"name": "churn", "groups": [CHURN]})
    mark = "&" if "?" in target else "?"
    found = page(store, f"{target}{mark}start=999999999")
    assert "This page is beyond the end of the list, which has 51." in found.text
    (last,) = [href for href, label in found.links.items() if label == "Last page"]
    assert "start=50" in last
    assert "churn" in page(store, last).text


def test_a_section_that_does_not_exist_is_named(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"name": "churn"})
    text = page(store, at(model("m"), "?tab=nope")).text
    assert "This entity has no section nope . This is Overview." in text
    assert "has no section" not in page(store, at(model("m"), "?tab=overview")).text
