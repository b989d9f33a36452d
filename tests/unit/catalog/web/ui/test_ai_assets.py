"""Pages of MCP servers, tools, skills, prompts and agents."""

import json
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from support.asgi import call
from support.catalog_assets import (
    AGENT,
    MODEL,
    PACKED,
    PROMPT,
    SERVER,
    SKILL,
    TOOLS,
    URNS,
    put_assets,
)
from support.catalog_store import put
from support.names import HOSTILE
from support.pages import at, page

FORECAST, ALERTS = TOOLS

SHOWN = {
    SERVER: ("MCP servers Weather MCP server", "Tools 2", "forecast Gives forecast."),
    at(SERVER, "?tab=overview"): (
        "Transport SSE Address https://weather.example/mcp Timeout in seconds 30.0 Headers X-Key",
        "Version 1.2.0 Source code https://git.example/weather Lifecycle PRODUCTION Owners ada",
        "team sky",
        'Definition as JSON { "name": "weather" }',
    ),
    FORECAST: ("Tools forecast Tool", "Server Weather", "Links Manual", "Used by 3"),
    SKILL: (
        "Skills Travel Skill",
        "Source code https://git.example/skills Path travel/SKILL.md",
        "Tags beta Required tools forecast",
        "Instructions # Ask for the *dates*.",
    ),
    PROMPT: (
        "Documents Packing Prompt mlflow",
        "For travellers.",
        "Version 11 State PUBLISHED",
        "Owners ada About ranker",
        "Contents What to pack for {{city}}? <b>Be brief.</b>",
        "Earlier versions 3 Version 10 Text 10. Version 9 Text 9. Version 2 Text 2.",
        "Properties 1 task chat",
    ),
    AGENT: (
        "Agents Guide Agent",
        "Tagline Knows the way Origin EXTERNAL",
        "Models ranker Tools forecast alerts Skills Travel",
    ),
    at(MODEL, "?tab=documents"): ("Documents 1", "Packing Prompt"),
    at(MODEL, "?tab=used"): ("Used by 1", "Guide Agent"),
    "/": ("1 MCP server 2 Tools 1 Skill 1 Agent 1 Document",),
    "/kind/service": ("MCP servers 1", "Weather Forecasts and alerts."),
    "/search?q=weather": ("Type Tools 2 MCP servers 1", "Kind MCP server 1"),
}


@pytest.mark.parametrize("target", SHOWN)
def test_a_page(store: Store, target: str) -> None:
    put_assets(store)
    answer = page(store, target if target.startswith("/") else at(target))
    for text in SHOWN[target]:
        assert text in answer.text


def test_what_a_server_has_is_no_lineage(store: Store) -> None:
    put_assets(store)
    for urn in (SERVER, *TOOLS, SKILL, PROMPT, AGENT):
        assert at(urn, "?tab=lineage") not in page(store, at(urn)).links
    assert "Nothing" in page(store, at(MODEL, "?tab=lineage")).text


def test_a_definition_that_is_not_what_it_says_is_shown_as_it_is(store: Store) -> None:
    put_assets(store)
    for blob in ("no base64", PACKED[:12], "<b>"):
        spec = {"blob": blob, "compression": "GZIP"}
        put(store, SERVER, serviceDefinition={"format": "OTHER", "rawSpec": spec})
        assert f"Definition as JSON {blob}" in page(store, at(SERVER, "?tab=overview")).text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_are_text_in_the_page_and_in_its_twin(store: Store, name: str) -> None:
    put_assets(store, name)
    app = create_app(store)
    twins = {}
    for target in (at(urn, tab) for urn in URNS for tab in ("", "?tab=overview", "?tab=used")):
        page(store, target)
        twins[target] = call(app, "GET", target, headers={"accept": "application/json"}).text
        assert "secret-value" not in twins[target]
    shown = json.loads(twins[at(PROMPT)])["page"]["overview"]["texts"]
    assert shown == [["Contents", f"What to pack for {{{{city}}}}?\n<b>Be brief.</b> {name}"]]


@pytest.mark.parametrize(
    ("text", "urns"),
    [
        ("packing", {PROMPT}),
        ("brief", {PROMPT}),
        ("alerts", {SERVER, ALERTS}),
        ("gives alerts", {ALERTS}),
        ("type:document", {PROMPT}),
        ("entity:api", set(TOOLS)),
        (f'relatedAssets:"{MODEL}"', {PROMPT}),
        (f'requiredTools:"{FORECAST}"', {SKILL}),
        (f'tools:"{FORECAST}"', {AGENT}),
    ],
)
def test_search_finds(store: Store, text: str, urns: set[str]) -> None:
    put_assets(store)
    found = page(store, f"/search?q={quote(text)}")
    assert {urn for urn in URNS + TOOLS if at(urn) in found.links} == urns
