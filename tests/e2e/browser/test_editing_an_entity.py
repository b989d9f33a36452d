"""The form that edits an entity in a real browser: by keyboard, without scripts, and its look."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from mlcat_ingest.catalog.store.store import Store
from support.browser import DESK, PHONE, SCHEMES, check_fit, check_look, watched
from support.catalog_process import CatalogProcess, catalog_process
from support.catalog_store import model, put

TOKEN = "write-token"
LONG = "urn:li:tag:" + "long" * 40
JOE = "urn:li:corpuser:joe"
MODEL = model("m")
FORM = f"/entity/{quote(MODEL, safe='')}?edit=1"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[CatalogProcess]:
    with closing(Store.open(tmp_path / "c.db")) as store:
        properties = {"name": "churn", "description": "Predicts **churn**."}
        put(store, MODEL, mlModelProperties=properties,
            globalTags={"tags": [{"tag": "urn:li:tag:pii"}, {"tag": LONG}]},
            ownership={"owners": [{"owner": JOE, "type": "DATAOWNER"}]})  # fmt: skip
    with catalog_process(tmp_path / "c.db", {"MLCAT_CATALOG_TOKEN": TOKEN}) as process:
        yield process


def sign_in(page: Page) -> None:
    page.goto(FORM)
    page.get_by_label("User name").fill("jane")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Edit")).to_be_visible()


def write_as_another(page: Page, text: str) -> None:
    """Describe the model by another writer, as a client does."""
    page.request.post(
        "/openapi/v3/entity/mlModel",
        headers={"Authorization": f"Bearer {TOKEN}"},
        data=[{"urn": MODEL, "editableMlModelProperties": {"value": {"description": text}}}],
    )


def test_an_entity_is_edited_by_keyboard_alone_and_without_scripts(
    browser: Browser, catalog: CatalogProcess
) -> None:
    with closing(browser.new_context(base_url=catalog.url, java_script_enabled=False)) as context:
        page = context.new_page()
        sign_in(page)
        page.get_by_role("textbox", name="Description").focus()
        keys = page.keyboard
        keys.type("By jane.")
        for text in ("", "", "gold"):  # past both tags to be removed
            keys.press("Tab")
            keys.type(text)
        for text in ("", "jane", "D"):  # an owner, as a data steward
            keys.press("Tab")
            keys.type(text)
        for text in ("https://wiki.example/churn", "Wiki"):
            keys.press("Tab")
            keys.type(text)
        keys.press("Tab")
        keys.press("Space")
        keys.press("Tab")
        keys.type("Use churn 2.")
        keys.press("Tab")
        keys.press("Enter")  # opens what is of the card
        keys.press("Tab")
        keys.type("Rank leads")
        for _ in range(14):
            keys.press("Tab")
        keys.press("Enter")
        expect(page.get_by_role("region", name="Description")).to_have_text("By jane.")
        expect(page.get_by_role("status")).to_have_text("Deprecated. Use churn 2.")
        shown = page.locator("main")
        page.get_by_role("link", name="Card").click()
        expect(shown.get_by_role("cell", name="Rank leads")).to_be_visible()
        page.go_back()
        for text in ("gold", "pii", "Wiki"):
            expect(shown.get_by_role("link", name=text)).to_be_visible()
        expect(shown.get_by_role("link", name="jane")).to_be_visible()
        page.get_by_role("link", name="History").click()
        expect(page.get_by_role("heading", name="by jane").first).to_be_visible()


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_form_and_a_conflict_fit_and_are_accessible(
    browser: Browser, catalog: CatalogProcess, width: int
) -> None:
    with watched(browser, catalog.url, width) as page:
        sign_in(page)
        look(page, width)
        page.get_by_role("textbox", name="Description").fill("Mine.")
        page.get_by_label("Add a link").fill("nope")
        write_as_another(page, "Theirs, with a\nsecond line.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was saved yet.")
        box = page.get_by_role("textbox", name="Description")
        expect(box).to_have_value("Mine.")
        expect(box).to_be_focused()
        expect(page.get_by_role("blockquote")).to_have_text("Theirs, with a\nsecond line.")
        expect(page.get_by_label("Add a link")).to_have_attribute("aria-invalid", "true")
        look(page, width)
        page.get_by_label("Add a link").fill("")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("region", name="Description")).to_have_text("Mine.")
        look(page, width)


def look(page: Page, width: int) -> None:
    check_fit(page, width)
    for scheme in SCHEMES:
        check_look(page, scheme)
