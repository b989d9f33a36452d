"""The pages of `catalog serve` in a real browser: signing in, searching, and its script."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
import requests
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect

from mlcat_ingest.catalog.store.reindex import ReindexScope
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.testing.service import failing_service
from support import catalog_assets
from support.browser import DESK, PHONE, SCHEMES, check_fit, check_look, watched
from support.catalog_process import CatalogProcess, catalog_process
from support.catalog_store import group, model, put
from support.fake_service import web_page

TOKEN, READ_TOKEN = "write-token", "read-token"
HOSTILE = "<img src=x onerror=alert(1)> hare"
TEST = "urn:li:test:described"
RULES = {"property": "mlModelProperties.description", "operator": "exists"}
DEFINITION = {"type": "JSON", "json": json.dumps({"on": {"types": ["mlModel"]}, "rules": RULES})}
RUN = "urn:li:dataHubExecutionRequest:nightly-1"
NIGHTLY = "<script>alert(1)</script> nightly"
RECIPE = "urn:li:dataHubIngestionSource:nightly"
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:s3,orders,PROD)"
REPORT = {
    "source": {"report": {"failures": [{"title": NIGHTLY, "context": [NIGHTLY]}]}},
    "mlcat": {
        "entities": {"mlModel": {"created": 1_234, "rejected": 2}},
        "passes": [{"source": "mlflow:e25a:default", "label": NIGHTLY}],
    },
}
TARGETS = (
    *(
        "/",
        "/changes",
        "/search/help",
        "/search?q=hare",
        "/kind/mlModel",
        "/kind/test",
        f"/entity/{TEST}",
        "/tasks",
    ),
    *(f"/kind/{urn.split(':')[2]}" for urn in (RUN, RECIPE)),
    *(f"/entity/{urn}" for urn in (RUN, RECIPE)),
    *(f"/entity/{ORDERS}?tab=lineage", f"/entity/{model('hostile')}"),
    f"/entity/{model('hostile')}?tab=card",
    *(f"/entity/{urn}" for urn in catalog_assets.URNS),
    *(
        f"/entity/{catalog_assets.SERVER}?tab=overview",
        f"/entity/{catalog_assets.MODEL}?tab=documents",
    ),
)


def fill(database: Path) -> None:
    with closing(Store.open(database)) as store, closing(Tasks(store)) as tasks:
        tasks.reindex(ReindexScope())
        put(store, RECIPE, dataHubIngestionSourceInfo={"name": f"[CLI] mlflow [{NIGHTLY}]"})
        put(
            store,
            RUN,
            dataHubExecutionRequestInput={"source": {"ingestionSource": RECIPE}},
            dataHubExecutionRequestResult={
                "status": "FAILURE",
                "startTimeMs": 1_700_000_000_000,
                "structuredReport": {"serializedValue": json.dumps(REPORT)},
            },
        )
        catalog_assets.put_assets(store, NIGHTLY)
        put(store, group("churn"), mlModelGroupProperties={"name": "Churn"})
        for number in range(12):
            properties = {"name": f"bold-hare-{number}", "groups": [group("churn")]}
            put(store, model(f"m{number}"), mlModelProperties=properties)
        put(store, TEST, testInfo={"name": "Described", "category": "c", "definition": DEFINITION})
        columns = [{"name": HOSTILE, "type": "double", "required": True}, {"type": "long"}]
        put(store, group("wide"), mlModelGroupProperties={"name": "Wide"})
        described = {
            "name": HOSTILE,
            "groups": [group("wide")],
            "externalUrl": "https://mlflow.example/#/experiments/1/runs/hostile",
            "trainingMetrics": [{"name": HOSTILE, "value": "0.123456789"}],
            "customProperties": {
                "signature.inputs": json.dumps(columns),
                "mlflow.logged_models": json.dumps([{"id": HOSTILE, "step": 1}]),
            },
        }
        put(store, model("hostile"), mlModelProperties=described)
        for name in ("hostile", *(f"m{number}" for number in range(12))):
            put(store, model(name), mlModelTrainingData={"trainingData": [{"dataset": ORDERS}]})


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogProcess]:
    database = tmp_path_factory.mktemp("catalog") / "c.db"
    fill(database)
    tokens = {"MLCAT_CATALOG_TOKEN": TOKEN, "MLCAT_CATALOG_READ_TOKEN": READ_TOKEN}
    with catalog_process(database, tokens) as process:
        yield process
        assert TOKEN not in process.log.read_text()
        assert READ_TOKEN not in process.log.read_text()


@pytest.fixture
def context(browser: Browser, catalog: CatalogProcess) -> Iterator[BrowserContext]:
    with closing(browser.new_context(base_url=catalog.url)) as opened:
        opened.set_default_timeout(30_000)
        yield opened


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def other_site(catalog: CatalogProcess) -> Iterator[str]:
    """Serve a page of another site: to a browser `localhost` is not the site of `127.0.0.1`."""
    html = f"""<!doctype html><a href="{catalog.url}/search?q=hare">link</a>
        <form action="{catalog.url}/logout" method="post"><button>sign out</button></form>"""
    with failing_service([web_page(html)]) as service:
        yield f"http://localhost:{service.port}/"


def sign_in(page: Page, token: str = TOKEN, target: str = "/") -> None:
    page.goto(target)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


# --- signing in and out --------------------------------------------------------------------------


def test_a_wrong_token_then_the_right_one_and_back_to_the_page(page: Page) -> None:
    page.goto("/search?q=bold&type=mlModel")
    assert page.url.endswith(f"/login?next={quote('/search?q=bold&type=mlModel', safe='')}")
    page.get_by_label("Token").fill("wrong")
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Wrong token.")
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_label("Token")).to_have_value("")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/search?q=bold&type=mlModel")
    expect(page.get_by_role("heading", name="Search 12")).to_be_visible()


def test_the_reading_token_signs_in_and_its_session_opens_no_interface(
    page: Page, catalog: CatalogProcess
) -> None:
    sign_in(page, READ_TOKEN)
    expect(page.get_by_role("heading", name="Catalog contents")).to_be_visible()
    statuses = page.evaluate(
        """async () => {
            const post = (path, body) => fetch(path, {method: "POST", body: JSON.stringify(body)});
            const answers = [
                await post("/api/graphql", {query: "{ __typename }"}),
                await post("/aspects?action=ingestProposal", {}),
                await fetch("/openapi/v3/entity/mlmodel"),
                await fetch("/metrics"),
                await fetch("/search/suggest?q=bold"),
            ];
            return answers.map((answer) => answer.status);
        }"""
    )
    assert statuses == [401, 401, 401, 401, 200]
    header = {"Authorization": f"Bearer {READ_TOKEN}"}
    query = {"query": "{ __typename }"}
    url = catalog.url
    assert requests.post(f"{url}/api/graphql", json=query, headers=header, timeout=30).ok
    proposal = f"{url}/aspects?action=ingestProposal"
    assert requests.post(proposal, json={}, headers=header, timeout=30).status_code == 403


def test_a_link_from_another_site_leads_to_the_page(page: Page, other_site: str) -> None:
    sign_in(page)
    expect(page.get_by_role("heading", name="Catalog contents")).to_be_visible()
    page.goto(other_site)
    page.get_by_role("link", name="link").click()
    page.wait_for_url("**/search?q=hare")
    expect(page.get_by_role("heading", name="Search 13")).to_be_visible()


def test_another_site_cannot_sign_somebody_out(page: Page, other_site: str) -> None:
    sign_in(page)
    expect(page.get_by_role("heading", name="Catalog contents")).to_be_visible()
    page.goto(other_site)
    # Nor is it waited for at that address: it may go on to the catalog by itself.
    with page.expect_response("**/login"):
        page.get_by_role("button", name="sign out").click()
    tab = page.context.new_page()
    tab.goto("/")
    expect(tab.get_by_role("heading", name="Catalog contents")).to_be_visible()


def test_a_metadata_test_is_run_from_its_page(page: Page) -> None:
    sign_in(page, target=f"/entity/{quote(TEST, safe='')}")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_contain_text("14 entities: 1 passing, 13 failing.")


def test_without_a_token_a_metadata_test_runs_from_its_own_page_only(
    browser: Browser, tmp_path: Path
) -> None:
    """Only a browser shows which origin it names under the headers of the page."""
    fill(tmp_path / "c.db")
    with (
        catalog_process(tmp_path / "c.db", {}) as process,
        closing(browser.new_context(base_url=process.url)) as context,
    ):
        page = context.new_page()
        path = f"/entity/{quote(TEST, safe='')}"
        page.set_content(
            f'<form action="{process.url}{path}" method="post"><button>run</button></form>'
        )
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Forbidden")
        page.goto(path)
        expect(page.get_by_role("link", name="Failing")).to_have_text("Failing 0")
        page.get_by_role("button", name="Run now").click()
        expect(page.get_by_role("link", name="Failing")).to_have_text("Failing 13")


def test_without_scripts_all_of_it_works(browser: Browser, catalog: CatalogProcess) -> None:
    with closing(browser.new_context(base_url=catalog.url, java_script_enabled=False)) as context:
        page = context.new_page()
        sign_in(page, TOKEN, "/search")
        page.get_by_role("searchbox").fill("bold-hare-7")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name="bold-hare-7").click()
        expect(page.get_by_role("heading", name="bold-hare-7")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


# --- searching -----------------------------------------------------------------------------------


def test_searching_by_typing(page: Page) -> None:
    sign_in(page)
    box = page.get_by_role("combobox", name="Search")
    box.press_sequentially("bold-hare-3")
    box.press("Enter")
    page.wait_for_url("**/search?q=bold-hare-3")
    page.get_by_role("link", name="bold-hare-3", exact=True).click()
    expect(page.get_by_role("heading", name="bold-hare-3")).to_be_visible()


def test_suggestions_are_chosen_with_the_keyboard(page: Page) -> None:
    sign_in(page)
    box = page.get_by_role("combobox", name="Search")
    options = page.get_by_role("option")
    expect(box).to_have_attribute("aria-expanded", "false")
    box.press_sequentially("bold")
    expect(options).to_have_count(8)
    expect(box).to_have_attribute("aria-expanded", "true")
    names = options.locator("bdi").all_text_contents()
    box.press("ArrowDown")
    box.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "suggestion-1")
    box.press("ArrowUp")
    box.press("ArrowUp")
    expect(options.nth(7)).to_have_attribute("aria-selected", "true")
    box.press("Enter")
    expect(page.get_by_role("heading", name=names[7], exact=True)).to_be_visible()


def test_changes_are_filtered_with_the_keyboard(page: Page) -> None:
    sign_in(page)
    expect(page.get_by_role("heading", name="Changed in the last day")).to_be_visible()
    page.get_by_role("link", name="All changes").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("What changed")
    page.get_by_label("Kind").select_option("Model groups")
    page.get_by_label("Group").fill("churn")
    page.get_by_label("Group").press("Enter")
    expect(page).to_have_url(re.compile(r"/changes\?by=&kind=mlModelGroup&group=churn$"))
    expect(page.get_by_label("Kind")).to_have_value("mlModelGroup")
    expect(page.locator(".changed")).to_contain_text("1 Model group created: Churn")
    expect(page.locator(".changed")).to_have_count(1)


def test_a_search_is_narrowed_and_explained_with_the_keyboard(page: Page) -> None:
    sign_in(page, target="/search?q=hare")
    page.get_by_role("link", name="Churn 12").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search 12")
    expect(page.get_by_role("link", name="Churn 12")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="How to search").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("How to search")
    page.get_by_role("link", name="status:FAILED").press("Enter")
    expect(page.get_by_label("Search", exact=True)).to_have_value("status:FAILED")


def test_choices_are_before_the_hits_folded_where_there_is_no_room(page: Page) -> None:
    page.set_viewport_size({"width": PHONE, "height": 900})
    sign_in(page, target="/search?q=hare")
    choice, hit = page.get_by_role("link", name="Churn 12"), page.locator(".hit").first
    expect(choice).to_be_hidden()
    expect(hit).to_be_in_viewport()
    page.get_by_text("Narrow the search").press("Enter")
    choice.press("Enter")
    expect(page.locator("summary")).to_have_text("Narrow the search Churn")
    expect(choice).to_be_hidden()
    page.set_viewport_size({"width": DESK, "height": 900})
    expect(page.locator("summary")).to_be_hidden()
    boxes = choice.bounding_box(), hit.bounding_box()
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]


def test_suggestions_close_and_open_again(page: Page) -> None:
    sign_in(page)
    box = page.get_by_role("combobox", name="Search")
    shown = page.get_by_role("listbox")
    box.press_sequentially("bold")
    expect(shown).to_be_visible()
    box.press("Escape")
    expect(shown).to_be_hidden()
    expect(box).to_have_value("bold")
    box.press_sequentially("-hare")
    expect(shown).to_be_visible()
    page.get_by_role("heading").first.click()
    expect(shown).to_be_hidden()
    box.fill("nothing like it")
    expect(shown).to_be_hidden()
    box.fill("churn")
    page.get_by_role("option", name="Churn Model group").click()
    expect(page.get_by_role("heading", name="Churn")).to_be_visible()


def test_names_in_suggestions_are_only_text(page: Page) -> None:
    alerts: list[str] = []

    def note(dialog: Dialog) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    sign_in(page)
    page.get_by_role("combobox", name="Search").press_sequentially("onerror")
    expect(page.get_by_role("option").locator("bdi")).to_have_text(HOSTILE)
    expect(page.locator("img")).to_have_count(0)
    assert alerts == []


def test_suggestions_fall_silent_where_the_session_ended(
    page: Page, context: BrowserContext
) -> None:
    sign_in(page)
    box = page.get_by_role("combobox", name="Search")
    context.clear_cookies()
    with page.expect_response("**/search/suggest?q=bold") as answered:
        box.press_sequentially("bold")
    assert answered.value.status == 401
    expect(page.get_by_role("listbox")).to_be_hidden()
    box.press("Enter")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


# --- how pages look ------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_pages_fit_and_follow_the_colours_of_the_system(
    browser: Browser, catalog: CatalogProcess, width: int
) -> None:
    with watched(browser, catalog.url, width) as page:
        page.goto("/login")
        look(page, width)
        button = page.get_by_role("button", name="Sign in").bounding_box()
        assert button is not None
        # In the middle, whatever the width.
        assert abs(button["x"] + button["width"] / 2 - width / 2) < 2
        sign_in(page)
        for target in (*TARGETS, "/nope", "/entity/x"):
            page.goto(target)
            look(page, width)


def look(page: Page, width: int) -> None:
    check_fit(page, width)
    for scheme in SCHEMES:
        check_look(page, scheme)


def test_what_a_pointer_sees_by_hovering_a_keyboard_shows_by_one_switch(page: Page) -> None:
    sign_in(page, target=f"/entity/{model('hostile')}")
    switch = page.get_by_label("Whole texts and values")
    rounded = page.locator("abbr bdi")
    expect(rounded).to_have_text("0.123457")
    switch.press("Space")
    expect(rounded).to_be_hidden()
    whole = page.locator("abbr").evaluate("one => getComputedStyle(one, '::after').content")
    assert whole == '"0.123456789"'
    page.emulate_media(media="print")
    expect(switch).to_be_hidden()
    page.emulate_media(media="screen")
    # A page without such texts has no switch.
    page.goto("/search/help")
    expect(switch).to_be_hidden()


def test_a_sorted_heading_shows_the_order_however_long_its_name_is(page: Page) -> None:
    page.set_viewport_size({"width": PHONE, "height": 900})
    sort = quote(f"-metrics.{HOSTILE}", safe="")
    sign_in(page, target=f"/entity/{group('wide')}?sort={sort}")
    heading = page.locator("th[aria-sort=descending]")
    expect(heading).to_have_text(HOSTILE)
    assert heading.evaluate("one => one.scrollWidth <= one.clientWidth")


# --- lineage -------------------------------------------------------------------------------------


def test_lineage_is_followed_by_keyboard_in_the_list_and_by_pointer_in_the_picture(
    page: Page,
) -> None:
    sign_in(page, target=f"/entity/{ORDERS}?tab=lineage")
    listed = page.locator(".tree a")
    for _ in range(60):
        page.keyboard.press("Tab")
        if listed.last.evaluate("one => one === document.activeElement"):
            break
        assert not page.locator(".graph :focus").count()
    expect(listed.last).to_have_text("+1 model")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Downstream of orders")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(13)
    page.go_back()
    page.locator(".node", has_text=HOSTILE).click()
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
