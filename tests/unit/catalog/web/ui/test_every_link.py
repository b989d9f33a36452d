"""Every kind of address that a page of the demo links to has a page, and that page its JSON."""

import json
from collections import Counter, deque
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

import pytest
from starlette.applications import Starlette

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.pages import ui_routes
from mlcat_ingest.cli.demo import HERE, unpack_store
from mlcat_ingest.cli.main import call as run
from support.asgi import call
from support.catalog_server import running_catalog
from support.catalog_store import named
from support.pages import RENDERER, Reader, at

pytestmark = pytest.mark.process

RECIPE = """\
name: demo
sources:
  - {type: feast, config: {registry: REGISTRY}}
  - {type: mlflow, config: {tracking_uri: "sqlite:///mlflow.db"}}
sink: {type: rest, config: {server: ADDRESS}}
"""
ALIKE = 2
"""How many addresses of one kind are asked for."""


def kind_of(target: str) -> tuple[object, ...]:
    """Return what makes two addresses alike: the type of their entity, and what they ask for."""
    path, query = unquote(urlsplit(target).path), parse_qsl(urlsplit(target).query)
    tab = dict(query).get("tab")
    of = path.partition("/urn:li:")[2].partition(":")[0] or path
    return of, tab, *sorted({key for key, _ in query})


def test_every_kind_of_link_leads_to_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unpack_store(tmp_path)
    with running_catalog(tmp_path / "catalog.db") as catalog:
        text = RECIPE.replace("REGISTRY", str(HERE / "feast" / "registry.db"))
        (tmp_path / "recipe.yml").write_text(text.replace("ADDRESS", catalog.url))
        assert run(["recipe.yml"]) == 0
        asked = crawl(catalog.store)
    assert {"mlModel", "mlModelGroup", "mlFeature", "mlFeatureTable"} <= {one[0] for one in asked}
    assert any("open" in one for one in asked)


def crawl(store: Store) -> Counter[tuple[object, ...]]:
    """Follow links from the first page and the groups; return how many of each kind there were."""
    app = Starlette(routes=ui_routes(store, RENDERER))
    waiting = deque(["/", *(at(urn) for urn in named(store) if ":mlModelGroup:" in urn)])
    asked, found = Counter[tuple[object, ...]](), set(waiting)
    while waiting:
        target = waiting.popleft()
        answer = call(app, "GET", target)
        assert answer.status == 200, target
        if answer.headers["content-type"].startswith("text/html"):
            json.loads(call(app, "GET", target, headers={"accept": "application/json"}).text)
            for link in Reader(answer.text).links:
                linked = urljoin(target, link.partition("#")[0])
                kind = kind_of(linked)
                if linked.startswith("/") and linked not in found and asked[kind] < ALIKE:
                    found.add(linked)
                    asked[kind] += 1
                    waiting.append(linked)
    return asked
