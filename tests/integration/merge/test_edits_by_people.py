"""People edit by form and by mutation while two recipes run: no edit is lost, each is explained."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest import Pipeline, Recipe
from mlcat_ingest.catalog.store.edits import description_aspect
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from support import small_store
from support.catalog_server import running_catalog
from support.fakes import model_urn
from support.small_store import GROUP

pytestmark = pytest.mark.timeout(600)

EDITS, PASSES, RUNS = 100, 5, 8
RECIPES = ("one", "two")
TARGETS = {
    "tag": ("globalTags", "tags", "urn:li:tag:"),
    "owner": ("ownership", "owners", "urn:li:corpuser:"),
    "url": ("institutionalMemory", "elements", "https://x.example/"),
    "description": ("", "", ""),
    "note": ("deprecation", "", ""),
}
"""Kind of edit to its aspect and list, and what its text begins with; a text is in no list."""
URNS = [*(model_urn(f"r{n}") for n in range(RUNS)), GROUP]
TIMEOUT_S = 60

RECIPE = """
name: {name}
source: {{type: mlflow, config: {{tracking_uri: 'sqlite:///mlflow.db'}}}}
enrich:
  - match: {{entity: [mlModel, mlModelGroup]}}
    add_tags: [{name}, {name}-{number}]
    add_owners: [{{owner: {name}-{number}, type: DATA_STEWARD}}]
sink: {{type: rest, config: {{server: '{url}'}}}}
state: {{full_every: 0s}}
"""

WINDOW_S = 0.3
"""How long a write of a recipe is held: edits arrive between what it read and what it writes."""

Edit = dict[str, str]
"""What one edit does: `urn`, `kind`, and a `text` that no other edit has."""


def edits_of(count: int) -> list[Edit]:
    return [
        {
            "urn": URNS[n % len(URNS)],
            # A group cannot be deprecated.
            "kind": list(TARGETS)[n % (len(TARGETS) - (URNS[n % len(URNS)] == GROUP))],
            "text": f"e{n}",
        }
        for n in range(count)
    ]


def by_form(url: str, edit: Edit) -> None:
    """Send the form as it is shown, and again where another text was written meanwhile."""
    page = f"{url}/entity/{quote(edit['urn'], safe='')}"
    text = f"https://x.example/{edit['text']}" if edit["kind"] == "url" else edit["text"]
    shown = requests.get(f"{page}?edit=1", timeout=TIMEOUT_S)
    for _ in range(20):
        fields = {
            name: unescape(value)
            for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', shown.text)
            + re.findall(r'<textarea id="(\w+)"[^>]*>\n(.*?)</textarea>', shown.text, re.DOTALL)
        }
        fields[edit["kind"]] = text
        shown = requests.post(page, fields, timeout=TIMEOUT_S, allow_redirects=False)
        if shown.status_code == 303:
            return
        assert shown.status_code == 409, shown.text
    raise AssertionError(f"{edit} was never saved")


def by_mutation(url: str, edit: Edit) -> None:
    urn, text = edit["urn"], edit["text"]
    mutations: dict[str, tuple[str, str, dict[str, Any]]] = {
        "tag": ("addTag", "TagAssociationInput", {"tagUrn": f"urn:li:tag:{text}"}),
        "owner": (
            *("addOwner", "AddOwnerInput"),
            {
                "ownerUrn": f"urn:li:corpuser:{text}",
                "ownerEntityType": "CORP_USER",
                "type": "TECHNICAL_OWNER",
            },
        ),
        "url": ("addLink", "AddLinkInput", {"linkUrl": f"https://x.example/{text}", "label": text}),
        "description": ("updateDescription", "DescriptionUpdateInput", {"description": text}),
        "note": (
            "updateDeprecation",
            "UpdateDeprecationInput",
            {"deprecated": False, "note": text},
        ),
    }
    name, input_type, inputs = mutations[edit["kind"]]
    inputs["urn" if edit["kind"] == "note" else "resourceUrn"] = urn
    query = f"mutation ($i: {input_type}!) {{ {name}(input: $i) }}"
    answer = requests.post(
        f"{url}/api/graphql", json={"query": query, "variables": {"i": inputs}}, timeout=TIMEOUT_S
    )
    assert answer.json()["data"] == {name: True}, answer.text


def prepare(url: str, edits: list[Edit]) -> None:
    """Make the tags and users that mutations name."""
    for kind, aspect, value in (
        ("tag", "tagProperties", {"name": "x"}),
        ("corpuser", "corpUserInfo", {"active": True}),
    ):
        body = [
            {"urn": f"urn:li:{kind}:{edit['text']}", aspect: {"value": value}} for edit in edits
        ]
        answer = requests.post(f"{url}/openapi/v3/entity/{kind}", json=body, timeout=TIMEOUT_S)
        answer.raise_for_status()


def run_pass(folder: Path, url: str, name: str, number: int) -> None:
    """Run a recipe whose tags and owners are others than in the pass before: it writes them all."""
    path = folder / f"{name}.yml"
    path.write_text(RECIPE.format(name=name, number=number, url=url))
    report = Pipeline(Recipe.load(path)).run()
    assert report.exit_code == 0
    assert report.entities["mlModel"].rejected == 0


def edit_during_passes(folder: Path, url: str, edits: list[Edit], passes: int) -> None:
    """Make all edits while two recipes run `passes` times at once."""
    store = small_store.make(folder)
    for number in range(RUNS):
        store.add_run(f"r{number}", lr="0.1")
    prepare(url, edits)
    for name in RECIPES:
        run_pass(folder, url, name, 0)
    share = len(edits) // passes
    with ThreadPoolExecutor(4) as pool:
        for number in range(passes):
            part = edits[number * share : (number + 1) * share]
            works = [pool.submit(run_pass, folder, url, name, number + 1) for name in RECIPES]
            for send, mine in ((by_form, part[::2]), (by_mutation, part[1::2])):
                works.append(pool.submit(send_all, partial(send, url), mine))
            for work in works:
                work.result()


def held(app: ASGIApp) -> ASGIApp:
    """Hold each write of a batch, which only recipes send."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if b"ingestProposalBatch" in scope.get("query_string", b""):
            await asyncio.sleep(WINDOW_S)
        await app(scope, receive, send)

    return answer


def send_all(send: Callable[[Edit], None], edits: list[Edit]) -> None:
    for edit in edits:
        send(edit)


def check(store: Store, edits: list[Edit], entries: list[dict[str, Any]]) -> None:
    """Check that each edit is stored, or was until another edit of its text, and is explained."""
    for edit in edits:
        aspect, field, text = TARGETS[edit["kind"]]
        text += edit["text"]
        if not field:
            named = description_aspect(edit["urn"]) if edit["kind"] == "description" else aspect
            values = versions(store, edit["urn"], named or "")
            assert text in [value.get(edit["kind"]) for value in values], edit
            text = values[-1][edit["kind"]]
            aspect, field = named or "", edit["kind"]
        found = [
            one["written_by"]
            for one in entries
            if (one["urn"], one["aspect"], one["field"]) == (edit["urn"], aspect, field)
            and re.search(rf"\b{text}\b", json.dumps([one["entry"], one["value"]]))
        ]
        assert found == ["person or tool"], edit
    for name in RECIPES:
        tags = {one["entry"] for one in entries if one["recipes"] == [name]}
        assert f"urn:li:tag:{name}" in tags


def versions(store: Store, urn: str, aspect: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    while (one := store.get_version(urn, aspect, len(found) + 1)) is not None:
        found.append(one.value)
    return found


def test_no_edit_is_lost_and_each_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = edits_of(EDITS)
    with running_catalog(tmp_path / "catalog.db", around=held) as catalog:
        edit_during_passes(tmp_path, catalog.url, edits, PASSES)
        entries = []
        for urn in URNS:
            capsys.readouterr()
            assert call(["explain", urn, "--server", catalog.url, "--json"]) == 0
            explained = json.loads(capsys.readouterr().out)
            entries += [{**entry, "urn": urn} for entry in explained["entries"]]
        check(catalog.store, edits, entries)
