"""Descriptions in Markdown: rendered on pages, one plain line in lists, harmless and quick."""

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.markdown import MAX_CHARS, plain_line, render_markdown
from support.catalog_store import group, model, put
from support.pages import Reader, at, get, page

ELEMENTS = {
    *("a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"),
    *("s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
REL = 'rel="noopener noreferrer external"'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("team **wine** and _more_", "<p>team <strong>wine</strong> and <em>more</em></p>"),
        ("# Title", "<h3>Title</h3>"),
        ("#### Deep\n##### Deeper", "<h6>Deep</h6>\n<h6>Deeper</h6>"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"),
        ("3. a", '<ol start="3">\n<li>a</li>\n</ol>'),
        ("`x < 1`", "<p><code>x &lt; 1</code></p>"),
        ("```python\nx = 1\n```", "<pre><code>x = 1\n</code></pre>"),
        ("~~old~~", "<p><s>old</s></p>"),
        ("[docs](https://x.test/a?b=1)", f'<p><a href="https://x.test/a?b=1" {REL}>docs</a></p>'),
        ("[mail](mailto:a@x.test)", f'<p><a href="mailto:a@x.test" {REL}>mail</a></p>'),
        ("![plot](https://x.test/p.png)", f'<p><a href="https://x.test/p.png" {REL}>plot</a></p>'),
        (
            "[![build](https://x.test/b.svg)](https://x.test)",
            f'<p><a href="https://x.test" {REL}>build</a></p>',
        ),
        ("[here](notes.md) ![plot](p.png)", "<p>here plot</p>"),
        ("one\ntwo", "<p>one\ntwo</p>"),
    ],
)
def test_a_description_is_rendered(text: str, html: str) -> None:
    assert render_markdown(text).text.strip() == html


def test_a_table_is_rendered() -> None:
    found = Reader(render_markdown("| a | b |\n|---|:-:|\n| 1 | 2 |").text)
    assert found.tags == [*("table", "thead", "tr", "th", "th"), *("tbody", "tr", "td", "td")]
    assert found.text.split() == ["a", "b", "1", "2"]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<div><p><b><svg/onload=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        "[x](//evil.test)",
        "[x](/logout)",
        "<javascript:alert(1)>",
        "![x](javascript:alert(1))",
        '![x" onerror="alert(1)](https://x.test)',
        '[x](https://x.test "\\" onclick=alert(1)")',
        '```"><script>alert(1)</script>\nx\n```',
        "[x]: javascript:alert(1)\n\n[x]",
        "<!-- --><style>*{}</style>",
        "\x00<script\x00>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ],
)
def test_nothing_of_a_description_runs_or_leads_to_a_script(text: str) -> None:
    check(render_markdown(text).text)


def check(html: str) -> None:
    found = Reader(html)
    assert set(found.tags) <= ELEMENTS
    assert all(re.match(r"(https?://|mailto:)", href, re.IGNORECASE) for href in found.links)
    assert set(re.findall(r"<\w+ ([a-z]+)=", html)) <= {"class", "href", "start"}


@example("\\\n:\n\n---")
@given(st.text(alphabet="ab <>[]()!*_`~#|-:\"'&;=/\\\n") | st.text())
def test_any_text_becomes_harmless_html_and_one_line(text: str) -> None:
    check(render_markdown(text).text)
    assert "\n" not in plain_line(text)


LARGE = {
    "1 MB": "# " + "a " * 500_000,
    "brackets": "[" * 9_000,
    "images": "![" * 4_500,
    "cells": "|a" * 300 + "\n" + "|-" * 300 + "\n" + "a\n" * 3_000,
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_what_is_large_or_would_take_long_is_shown_as_it_is(text: str) -> None:
    html = render_markdown(text).text
    assert html.startswith('<p class="plain">')
    assert unescape(html.removeprefix('<p class="plain">').removesuffix("</p>")) == text


@pytest.mark.parametrize("text", [">" * MAX_CHARS, "> - " * 2_500 + "a", "*a_" * 3_000])
def test_deep_nesting_is_bounded(text: str) -> None:
    html = render_markdown(text).text
    check(html)
    assert html.count("<blockquote>") <= 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Title\n\nteam **wine**, `x_y`\n- a\n- b", "Title team wine, x_y a b"),
        ("[docs](https://x.test) ![plot](p.png)", "docs plot"),
        ("plain  text\nof two lines", "plain text of two lines"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
        ("```\ncode\n```", "code"),
        ("snake_case_name <b> 2 * 3", "snake_case_name <b> 2 * 3"),
        ("", ""),
    ],
)
def test_a_list_has_one_line_without_marks(text: str, line: str) -> None:
    assert plain_line(text) == line


def test_pages_render_and_lists_and_hits_show_a_line(store: Store) -> None:
    churn = put(store, group("churn"), mlModelGroupProperties={"description": "The **good** ones"})
    put(store, model("m"), mlModelProperties={"groups": [churn], "description": "# A _run_"})
    assert "<p>The <strong>good</strong> ones</p>" in get(store, at(churn)).text
    assert "<h3>A <em>run</em></h3>" in get(store, at(model("m"))).text
    assert "<bdi>A run</bdi>" in get(store, at(churn)).text
    assert "Description: <bdi>The <mark>good</mark> ones</bdi>" in get(store, "/search?q=good").text


@pytest.mark.parametrize(
    ("aspect", "value"),
    [
        ("editableMlModelProperties", {"description": "by **people**"}),
        ("documentation", {"documentations": [{"documentation": "by **people**"}]}),
    ],
)
def test_what_people_wrote_in_the_catalog_takes_precedence(
    store: Store, aspect: str, value: dict[str, object]
) -> None:
    urn = put(store, model("m"), mlModelProperties={"description": "by MLflow"}, **{aspect: value})
    text = page(store, at(urn)).text
    assert "by people" in text
    assert "by MLflow" not in text


def test_a_term_has_its_definition(store: Store) -> None:
    urn = put(store, "urn:li:glossaryTerm:churn", glossaryTermInfo={
        "definition": "Customers who *leave*", "termSource": "INTERNAL"})  # fmt: skip
    assert "<em>leave</em>" in get(store, at(urn)).text
