"""From a search to a metadata test, page by page, over catalogs that real ingests filled.

Three stores: that of the demo, one of hostile names, and one of 10,000 runs with 30 metrics each.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from benchmarks.generate import generate
from mlcat_ingest.cli import demo
from mlcat_ingest.cli.main import call
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.browser import DESK, PHONE, SCHEMES, check_fit, check_look, watched
from support.catalog_process import catalog_process
from support.names import HOSTILE
from support.seeded_store import new_seeded_database

pytestmark = pytest.mark.timeout(900)

TESTS = Path(demo.__file__).with_name("metadata_tests.yml")
RUNS, METRICS = 10_000, 30
COMPARED = 3


@dataclass(frozen=True)
class Journey:
    """What a reader looks for in a store: a group, its best finished run by a metric, a table.

    A metric that is not `judged` has a name that says nothing of which values are better.
    """

    search: str
    group: str
    metric: str
    table: str = ""
    judged: bool = True


JOURNEYS = {
    "demo": Journey("cancer", "breast-cancer-screening", "accuracy", "lab.cell_nuclei"),
    "hostile": Journey("churn", "churn", "auc", f"shop.{HOSTILE['html']}"),
    "many": Journey("experiment", "experiment-001", "metric_07", judged=False),
}


def fill_demo(folder: Path) -> Path:
    command = [sys.executable, "-m", "mlcat_ingest", "demo", "--no-serve", "-q"]
    subprocess.run([*command, "--dir", str(folder), "--port", "0"], check=True, capture_output=True)
    return folder / demo.CATALOG_FILE


def fill_hostile(folder: Path) -> Path:
    database = folder / "mlflow.db"
    made = new_seeded_database(database)
    with mlflow_client(f"sqlite:///{database}") as client:
        for number, name in enumerate(HOSTILE.values()):
            run = client.create_run(made.experiments["churn"], run_name=name).info.run_id
            client.log_metric(run, "auc", 1 + number)
            client.set_terminated(run)
    tables = [
        {
            "name": name,
            "description": f"[click](javascript:alert(1)) <img src=x onerror=alert(1)> {name}",
            "keys": [{"name": f"key {name}", "type": "NOMINAL"}],
            "features": [{"name": name, "type": "COUNT", "description": name}],
        }
        for name in HOSTILE.values()
        if name.isprintable()
    ]
    definitions = {"version": 1, "platform": "custom", "namespace": "shop", "tables": tables}
    (folder / "definitions.yml").write_text(yaml.safe_dump(definitions))
    return ingest(folder, database, {"type": "definitions", "config": {"path": "definitions.yml"}})


def fill_many(folder: Path) -> Path:
    return ingest(folder, generate(folder, runs=RUNS, experiments=1, params=2, metrics=METRICS))


def ingest(folder: Path, store: Path, *sources: dict[str, object]) -> Path:
    """Ingest an MLflow store and other sources, with metadata tests; return the catalog's file."""
    mlflow = {"type": "mlflow", "config": {"tracking_uri": f"sqlite:///{store}"}}
    catalog = folder / "catalog.db"
    recipe = folder / "recipe.yml"
    with catalog_process(catalog) as process:
        assert call(["catalog", "tests", "push", str(TESTS), "--server", process.url]) == 0
        content = {
            "name": "journey",
            "sources": [mlflow, *sources],
            "sink": {"type": "rest", "config": {"server": process.url}},
            "limits": {"max_new_entities": 100_000},
        }
        recipe.write_text(yaml.safe_dump(content))
        assert call([str(recipe), "-q"]) == 0
    return catalog


FILL: dict[str, Callable[[Path], Path]] = {
    "demo": fill_demo,
    "hostile": fill_hostile,
    "many": fill_many,
}


@pytest.fixture(scope="module", params=FILL)
def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Journey]]:
    """Give the address of a catalog, and what a reader looks for there."""
    database = FILL[request.param](tmp_path_factory.mktemp(request.param))
    with catalog_process(database) as process:
        yield process.url, JOURNEYS[request.param]


class Reader:
    """A reader of pages, who looks at each at both widths and in both schemes, and once."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._seen: set[str] = set()

    def look(self) -> None:
        self.check_shown()
        content = self.page.content()
        if content in self._seen:
            return
        self._seen.add(content)
        for width in (PHONE, DESK):
            check_fit(self.page, width)
            ticks = self.page.locator(".across text")
            assert ticks.count() < 2 or ticks.locator("visible=true").count() > 1
            for scheme in SCHEMES:
                check_look(self.page, scheme)

    def check_shown(self) -> None:
        expect(self.page.locator("main h1").first).to_be_visible()
        expect(self.page.locator("main h1")).not_to_have_text(re.compile("not found|Error"))
        expect(self.page.locator("img, iframe, object, embed")).to_have_count(0)

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.look()

    def follow(
        self, name: str | re.Pattern[str], within: str = "main", *, exact: bool = True
    ) -> str:
        """Click a link; return the name of the page that was left."""
        left = self.page.url
        link = self.page.locator(within).get_by_role("link", name=name, exact=exact).first
        link.click()
        self.page.wait_for_url(lambda url: url != left)
        self.look()
        return left

    def tab(self, name: str) -> str:
        return self.follow(re.compile(f"^{name}"), "nav.tabs")

    def submit(self, button: str) -> None:
        self.page.get_by_role("button", name=button).first.click()
        self.page.wait_for_load_state()
        self.look()


def test_a_reader_goes_from_a_search_to_a_test(
    browser: Browser, catalog: tuple[str, Journey]
) -> None:
    address, journey = catalog
    with watched(browser, address, DESK) as page:
        reader = Reader(page)
        reader.open("/")
        page.get_by_label("Search", exact=True).fill(journey.search)
        page.get_by_label("Search", exact=True).press("Enter")
        page.wait_for_url("**/search?**")
        reader.look()
        reader.follow(journey.group)
        judge_runs(reader, journey)
        understand_run(reader, journey)
        run_test(reader)
        if journey.table:
            look_at_table(reader, journey)
        for kind in ("mlModel", "mlModelGroup", "test", "dataHubExecutionRequest"):
            reader.open(f"/kind/{kind}")


def judge_runs(reader: Reader, journey: Journey) -> None:
    """Filter and sort the runs of a group, compare the best, and open the very best."""
    page = reader.page
    group = page.url
    sort_by_every_heading(reader)
    page.goto(group)
    page.get_by_label("Filter").fill(f"metrics.{journey.metric}>-1 status:FINISHED")
    reader.submit("Apply")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.locator("details.choose summary").click()
    chosen = page.locator("details.choose").get_by_role("checkbox", checked=True)
    while chosen.count():
        chosen.first.uncheck()
    box = page.locator("details.choose").get_by_label(f"metrics.{journey.metric}", exact=True)
    page.get_by_label("Find a column").fill("no such column")
    expect(box).to_be_hidden()
    page.get_by_label("Find a column").fill(journey.metric)
    box.check()
    reader.submit("Show these columns")
    keep_columns(reader, group, ["Name", journey.metric])
    reader.follow(journey.metric, "thead")
    if not journey.judged:
        expect(page.get_by_text("nothing says which values are better")).to_be_visible()
        expect(page.get_by_text("best", exact=True)).to_have_count(0)
        reader.follow("More is better")
    expect(page.locator("tbody tr").first.get_by_text("best", exact=True)).to_be_visible()
    expect(page.locator("figure.chart circle").first).to_be_visible()
    named = re.compile(f": {re.escape(journey.metric)} ")
    expect(page.locator("figure.chart .points a").first).to_have_accessible_name(named)
    expect(page.locator("figure.chart text").first).to_be_visible()
    boxes = page.locator("tbody").get_by_role("checkbox").all()[:COMPARED]
    for box in boxes:
        box.check()
    best = page.locator("tbody tr th a").first.text_content() or ""
    if len(boxes) > 1:
        reader.submit("Compare the chosen models")
        expect(page.locator("h1")).to_have_text(f"Comparison {len(boxes)}")
        expect(page.get_by_text("best", exact=True).first).to_be_visible()
    reader.follow(best)
    expect(page.locator("h1")).to_have_text(best)
    expect(page.locator(".chips .kind")).to_have_text("Run")


def sort_by_every_heading(reader: Reader) -> None:
    """Follow the link of each heading by the keyboard, twice: both ways, and it comes first."""
    page = reader.page
    for title in ("Name", "Status", "Duration", "Started", "Owner"):
        ways = []
        for _ in range(2):
            named = page.get_by_text(title, exact=True)
            with page.expect_navigation():
                page.locator("thead th > a:first-child").filter(has=named).press("Enter")
            heading = page.locator("thead th[aria-sort]")
            assert title in (heading.text_content() or "")
            assert heading.evaluate("cell => cell.cellIndex") == (title != "Name")
            ways.append(heading.get_attribute("aria-sort"))
        assert sorted(map(str, ways)) == ["ascending", "descending"], title


def keep_columns(reader: Reader, group: str, titles: list[str]) -> None:
    """Keep the chosen columns for a group, see them without an address, and forget them."""
    page = reader.page
    shown = page.url
    page.locator("details.choose summary").first.click()
    reader.follow("Keep these columns for this group")
    page.goto(group)
    reader.look()
    assert page.locator("thead th > a:first-child").all_text_contents() == titles
    with page.expect_navigation():
        page.get_by_role("link", name="Forget them").click()
    reader.look()
    expect(page.locator("thead").get_by_role("link", name="Status")).to_be_visible()
    page.goto(shown)


def understand_run(reader: Reader, journey: Journey) -> None:
    """Look at every tab of a run: its features, its group, where it comes from, who wrote it."""
    page = reader.page
    run = page.url
    labels = [label.strip() for label in page.locator("nav.tabs a").all_text_contents()]
    names = [re.match(r"[A-Za-z ]+", label)[0].strip() for label in labels]  # type: ignore[index]
    assert {"Overview", "Group", "Lineage", "History"} <= set(names), names
    for name in names[1:]:
        reader.tab(name)
        page.goto(run)
    reader.tab("History")
    expect(page.get_by_text("mlModelProperties").first).to_be_visible()
    page.goto(run)
    reader.tab("Group")
    reader.follow(journey.group)
    page.goto(run)


def run_test(reader: Reader) -> None:
    """Open one of the tests of a run, and run it."""
    page = reader.page
    reader.tab("Tests")
    reader.follow("Every model has an owner")
    reader.submit("Run now")
    expect(page.get_by_role("heading", name="Evaluated now")).to_be_visible()
    expect(page.get_by_text("Nothing changed.")).to_be_visible()
    reader.tab("Failing")


def look_at_table(reader: Reader, journey: Journey) -> None:
    """Open a feature table from the list, one of its features, and what uses that."""
    page = reader.page
    reader.open("/kind/mlFeatureTable")
    reader.follow(journey.table)
    page.locator("tbody tr th a").first.click()
    reader.look()
    reader.tab("Lineage")


def test_pages_of_hostile_entities_show_only_text(browser: Browser, tmp_path: Path) -> None:
    database = fill_hostile(tmp_path)
    with catalog_process(database) as process, watched(browser, process.url, DESK) as page:
        reader = Reader(page)
        for kind in ("mlModelGroup", "mlModel", "mlFeatureTable"):
            reader.open(f"/kind/{kind}")
            addresses = [link.get_attribute("href") for link in page.locator("tbody th a").all()]
            for address in addresses:
                page.goto(str(address))
                reader.check_shown()
                for width in (PHONE, DESK):
                    check_fit(page, width)
                    check_look(page, "light")
