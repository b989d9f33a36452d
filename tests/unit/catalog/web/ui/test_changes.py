"""The page of what changed, its feed, and the last day's changes on the first page."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from html import unescape
from itertools import chain
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store import batch
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.changes import changes_page
from mlcat_ingest.catalog.web.ui.lists import PAGE_ROWS
from mlcat_ingest.core.clock import now_ms
from support.catalog_store import group, model, put, put_test, statements
from support.names import HOSTILE
from support.pages import at, get, page

ADA = "urn:li:corpuser:ada"
NOON_MS = 1_790_000_000_000 // 86_400_000 * 86_400_000 + 43_200_000
DAY_MS = 86_400_000
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the time at which the store writes, in milliseconds; a test may set it."""
    now = [NOON_MS]
    monkeypatch.setattr(batch, "now_ms", lambda: now[0])
    return now


def write(
    store: Store, urn: str, value: dict[str, Any], actor: str | None = None, run: str = ""
) -> None:
    metadata = {"runId": run, "pipelineName": "nightly"} if run else None
    store.write(
        [Write(urn, "mlModelProperties", value, system_metadata=metadata)],
        *([actor] if actor else []),
    )


def feed_of(store: Store, query: str = "") -> ET.Element:
    return ET.fromstring(get(store, f"/changes.atom{query}").text)  # noqa: S314 - our own


def text(store: Store, query: str = "") -> str:
    return page(store, f"/changes{query}").text.partition("Atom feed")[2]


def test_changes_are_by_day_and_ingestion_the_newest_first(store: Store, clock: list[int]) -> None:
    write(store, model("a"), {"name": "a", "description": "old"}, run="r1")
    write(store, model("b"), {"name": "b"}, run="r1")
    clock[0] += DAY_MS
    metrics = [{"name": "auc", "value": "0.9"}]
    write(store, model("a"), {"name": "a", "description": "new"}, run="r2")
    clock[0] += 60_000
    write(store, model("b"), {"name": "b", "trainingMetrics": metrics}, ADA)
    clock[0] += 60_000
    put(store, model("a"), status={"removed": True})
    day = datetime.fromtimestamp(NOON_MS / 1000, UTC)
    assert text(store).startswith(
        f" {day.replace(day=day.day + 1):%Y-%m-%d} "
        "12:02 UTC by a person or tool 1 Model removed : a "
        "12:01 UTC by ada b Model added trainingMetrics auc 0.9 "
        "12:00 UTC by recipe nightly , run r2 a Model changed description old → new "
        f"{day:%Y-%m-%d} 12:00 UTC by recipe nightly , run r1 2 Models created : b , a"
    )


def test_counts_of_a_page_that_ends_in_an_ingestion_say_that_there_are_more(
    store: Store, clock: list[int]
) -> None:
    clock[0] = now_ms()
    for number in range(PAGE_ROWS + 1):
        write(store, model(f"m{number}"), {"name": "m"}, run="r1")
    clock[0] += 1
    write(store, model("other"), {"name": "other"}, run="r2")
    for shown in (text(store), page(store, "/").text):
        assert "run r2 1 Model created : other" in shown
        assert f"run r1 at least {PAGE_ROWS - 1} Models created" in shown
    *_, older = re.findall(r'href="([^"]+)" rel="next"', get(store, "/changes").text)
    assert "run r1 2 Models created" in page(store, unescape(older)).text


def evaluated(store: Store, names: Iterable[str], **outcomes: str) -> None:
    """Write the tests that models pass and fail, all at one moment."""
    value = {
        side: [{"test": f"urn:li:test:{test}", "type": kind} for test in outcomes[side].split()]
        for side, kind in (("passing", "SUCCESS"), ("failing", "FAILURE"))
    }
    store.write([Write(model(name), "testResults", value) for name in names])


def test_results_of_metadata_tests_are_by_the_test_that_fails_or_fails_no_longer(
    store: Store, clock: list[int]
) -> None:
    put_test(store, "has owner")
    for name in ("a", "b"):
        put(store, model(name), mlModelProperties={"name": name})
    clock[0] += 1
    evaluated(store, ["a"], failing="has-owner", passing="other")
    evaluated(store, ["b"], failing="has-owner other", passing="")
    clock[0] += DAY_MS
    evaluated(store, ["a", "b"], failing="has-owner", passing="other")
    clock[0] += DAY_MS
    evaluated(store, ["a", "b"], failing="", passing="has-owner other third")
    put(store, model("a"), mlModelProperties={"name": "a", "description": "x"},
        testResults={"passing": [], "failing": []})  # fmt: skip
    shown = text(store)
    for expected in (
        '1 Model newly passing "has owner" : b',
        '1 Model newly passing "other" : b',
        '2 Models newly failing "has owner" : b , a 1 Model newly failing "other" : b',
    ):
        assert f"by the catalog {expected}" in shown
    assert "third" not in shown
    assert "added description x" in shown
    assert "urn:li:test" not in shown
    contents = [one.text or "" for one in feed_of(store).iter(f"{ATOM}content")]
    assert 'newly failing "has owner"\nnewly failing "other"' in contents


def test_results_of_metadata_tests_take_no_places_of_changes(
    store: Store, clock: list[int]
) -> None:
    clock[0] = now_ms()
    names = [f"m{number}" for number in range(PAGE_ROWS + 1)]
    write(store, model("first"), {"name": "first"}, ADA)
    clock[0] += 1
    store.write([Write(model(name), "mlModelProperties", {"name": name}) for name in names])
    clock[0] += 1
    evaluated(store, names, failing="t", passing="")
    for shown in (text(store), page(store, "/").text.partition("last day")[2]):
        assert shown.find("created") < shown.find("newly failing")
        assert f"at least {PAGE_ROWS} Models created" in shown
        assert f'at least {PAGE_ROWS} Models newly failing "t"' in shown
    *_, older = re.findall(r'href="([^"]+)" rel="next"', get(store, "/changes").text)
    shown = page(store, unescape(older)).text
    assert "by ada 1 Model created : first" in shown
    assert "by a person or tool 1 Model created : m0" in shown
    assert "newly failing" not in shown


def test_bookkeeping_is_shown_only_of_what_has_no_other_change(
    store: Store, clock: list[int]
) -> None:
    put(store, model("a"), mlModelProperties={"customProperties": {"k": "v"}})
    tags = {"globalTags": {"tags": [{"tag": "urn:li:tag:gold"}]}}
    for day, aspects in enumerate((tags, {}), 1):
        clock[0] += DAY_MS
        custom = {"k": "v", "mlcat.source": str(day)}
        put(store, model("a"), mlModelProperties={"customProperties": custom}, **aspects)
        newest = text(store).partition(" by a person or tool a Model ")[2]
        assert newest.startswith("mlModelProperties Only internal") is (not aspects)


def test_a_restored_entity_is_changed(store: Store, clock: list[int]) -> None:
    for removed in (True, False):
        put(store, model("a"), status={"removed": removed})
        clock[0] += 1
    assert "changed removed true → false" in text(store)


def test_a_large_value_hides_no_other_change(store: Store, clock: list[int]) -> None:
    for name in ("gone", "a", "large"):
        put(store, model(name), mlModelProperties={"name": name})
    for urn, aspects in (
        (model("gone"), {"status": {"removed": True}}),
        (model("a"), {"mlModelProperties": {"name": "a", "description": "new"}}),
        (model("large"), {"mlModelProperties": {"name": "large", "description": "x" * 900_000}}),
    ):
        clock[0] += 1
        put(store, urn, **aspects)
    shown = text(store)
    assert "1 Model removed : gone" in shown
    assert "added description new" in shown
    assert shown.count("too large to be compared on this page") == 1
    titles = [one.findtext(f"{ATOM}title") for one in feed_of(store).findall(f"{ATOM}entry")]
    assert titles[:3] == ["Model large changed", "Model a changed", "Model gone removed"]


def test_what_is_removed_depends_on_no_other_value(
    store: Store, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone", "a"):
        put(store, model(name), mlModelProperties={"name": name})
    clock[0] += 1
    put(store, model("gone"), status={"removed": True})
    clock[0] += 1
    write(store, model("a"), {"name": "a", "description": "new"})
    for most in range(20, 200, 5):
        monkeypatch.setattr("mlcat_ingest.catalog.web.ui.history.COMPARED_CHARS", most)
        outcomes = {one.row.name: one.outcome for one in changes_page(store, {}).entities[:2]}
        assert outcomes == {"a": "changed", "gone": "removed"}


def test_an_aspect_that_is_gone_says_so(store: Store, clock: list[int]) -> None:
    put(store, model("a"), mlModelProperties={"name": "a"})
    clock[0] += 1
    put(store, model("a"), globalTags={"tags": [{"tag": "urn:li:tag:gold"}]})
    store.write([Write(model("a"), "globalTags", change="DELETE")])
    shown = text(store)
    assert "added tags urn:li:tag:gold" in shown
    assert "globalTags The aspect was deleted afterwards." in shown


def test_platforms_and_runs_of_recipes_are_only_shown_if_they_are_asked_for(store: Store) -> None:
    run = "urn:li:dataHubExecutionRequest:nightly-1"
    put(store, run, dataHubExecutionRequestResult={"status": "SUCCESS"})
    assert "No changes." in text(store)
    assert "created : nightly-1" in text(store, "?kind=dataHubExecutionRequest")
    assert "mlflow" in text(store, "?kind=dataPlatform") or text(store, "?kind=dataPlatform")


@pytest.fixture
def filled(store: Store, clock: list[int]) -> Store:
    put(store, ADA, corpUserInfo={"active": True, "displayName": "Ada L."})
    for name in ("churn", "other"):
        put(store, group(name), mlModelGroupProperties={"name": name.title()})
    for number in range(4):
        urns = [group("churn" if number < 2 else "other")]
        write(store, model(f"m{number}"), {"name": f"m{number}", "groups": urns})
    clock[0] += 1
    write(store, model("m0"), {"name": "m0", "description": "by ada"}, ADA)
    return store


def test_changes_of_a_recipe_are_found_by_its_name(store: Store, clock: list[int]) -> None:
    for number, name in enumerate(["nightly", "night", 'a"%\\é', ""]):
        properties = {"pipelineName": "nightly"} if not name else None
        metadata = {"pipelineName": name, "properties": properties} if name else properties
        written = Write(model(f"m{number}"), "mlModelProperties", {}, system_metadata=metadata)
        store.write([written._replace(value={"name": f"m{number}"})])
        clock[0] += 1

    def found(recipe: str) -> list[str]:
        shown = changes_page(store, {"by": f"recipe:{recipe}"})
        assert shown.writers[f"recipe:{recipe}"] == f"recipe {recipe}"
        return [one.row.name for one in shown.entities]

    assert (found("nightly"), found("night"), found('a"%\\é')) == (["m3", "m0"], ["m1"], ["m2"])
    assert found("other") == []
    assert "recipe nightly" in page(store, "/changes").text.partition("Atom feed")[0]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?by=people", ["m0"]),
        ("?by=ada", ["m0"]),
        (f"?by={ADA}", ["m0"]),
        ("?by=Ada L.", ["m0"]),
        ("?by=urn:li:corpuser:eve", []),
        ("?kind=mlModelGroup", ["Other", "Churn"]),
        ("?kind=corpuser", ["Ada L."]),
        ("?kind=nothing", []),
        ("?group=other", ["m3", "m2", "Other"]),
        (f"?group={quote(group('other'))}", ["m3", "m2", "Other"]),
        ("?group=other&kind=mlModel", ["m3", "m2"]),
        ("?group=unknown", []),
    ],
)
def test_changes_are_filtered(filled: Store, query: str, names: list[str]) -> None:
    given = dict(pair.split("=") for pair in query[1:].replace("%3A", ":").split("&"))
    if "%" in query:
        given["group"] = group("other")
    assert [one.row.name for one in changes_page(filled, given).entities] == names
    feed = feed_of(filled, query)
    assert len(feed.findall(f"{ATOM}entry")) == len(names)


def test_the_form_keeps_what_was_chosen_and_names_the_people(filled: Store) -> None:
    source = get(filled, "/changes?by=ada&kind=mlModel&group=%22%3E").text
    assert 'name="by" list="writers" value="ada"' in source
    assert '<option value="mlModel" selected>Models</option>' in source
    assert 'value="&#34;&gt;"' in source
    assert '<option value="ada">Ada L.</option>' in get(filled, "/changes").text
    for kind in ("", "?kind=unknownType"):
        (chosen,) = re.findall(
            r'name="kind">.*?<option value="(\w*)" selected>', get(filled, f"/changes{kind}").text
        )
        assert chosen == kind.removeprefix("?kind=")


def test_the_form_offers_all_recipes_and_says_what_there_is_not(filled: Store) -> None:
    source = "urn:li:dataHubIngestionSource:weekly"
    put(filled, source, dataHubIngestionSourceInfo={"name": "weekly", "type": "mlflow"})
    assert '<option value="recipe:weekly">recipe weekly</option>' in get(filled, "/changes").text
    for query, cause in {
        "?kind=mlmodel": "No changes. There is no kind mlmodel.",
        "?group=chrun": "No changes. No group is named chrun.",
    }.items():
        assert text(filled, query).startswith(f" {cause}")
    assert text(filled, "?by=recipe:weekly").startswith(" No changes. Served by")


def test_pages_follow_each_other_through_one_moment(store: Store, clock: list[int]) -> None:
    urns = [model(f"m{number:03}") for number in range(2 * PAGE_ROWS + 3)]
    store.write([Write(urn, "mlModelProperties", {"name": urn}) for urn in urns])
    seen, target = [], "/changes?kind=mlModel"
    while target:
        links = page(store, target).links
        seen += [link for link in links if link.startswith("/entity/")]
        # What is written in between moves no page.
        clock[0] += 1
        write(store, model("later"), {"name": str(clock[0])})
        target = next((link for link in links if "before=" in link), "")
    assert seen == [at(urn) for urn in reversed(urns)]


@pytest.mark.parametrize("before", ["", "x", "-", "1-2-3", "99999999999999999999-1", "\x00-1"])
def test_any_text_may_be_where_a_page_goes_on(store: Store, before: str) -> None:
    write(store, model("a"), {"name": "a"})
    assert "1 Model created : a" in text(store, f"?before={quote(before)}")


def plan_of(query: str, connection: Connection) -> list[str]:
    values = (1,) * query.count("?")
    return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values)]


def test_a_page_walks_along_the_time_alone(filled: Store) -> None:
    """No filter reads the wide rows of the tables, or sorts all that it finds."""
    plans: list[str] = []
    for query in ({}, {"by": "people"}, {"kind": "mlModel"}, {"group": group("churn")}):
        with statements(filled) as seen:
            changes_page(filled, query)
        asked = [sql for sql in seen if " UNION SELECT aspect_history.modified_ms" in sql]
        plans += chain(*(filled.read(partial(plan_of, one)) for one in asked))
    tables = [step for step in plans if step.split()[1:2] in (["aspect"], ["aspect_history"])]
    assert len(tables) == 16
    assert all("COVERING INDEX" in step and "_by_time" in step for step in tables)
    assert "MERGE (UNION)" in plans


def test_the_statements_do_not_grow_with_the_changes(store: Store, clock: list[int]) -> None:
    taken = set()
    for rounds in (2, 20):
        for number in range(2 * rounds):
            clock[0] += 1
            write(store, model(f"m{number % rounds}"), {"name": str(clock[0])}, run=f"r{number}")
        with statements(store) as seen:
            changes_page(store, {})
        taken.add(len(seen))
    assert len(taken) == 1


# --- the feed ------------------------------------------------------------------------------------


def test_the_feed_is_one_of_rfc_4287(filled: Store) -> None:
    answer = get(filled, "/changes.atom?kind=mlModel")
    assert answer.headers["content-type"] == "application/atom+xml"
    feed = feed_of(filled, "?kind=mlModel")
    assert feed.tag == f"{ATOM}feed"
    links = {link.get("rel"): link.get("href") for link in feed.findall(f"{ATOM}link")}
    assert links["self"] == feed.findtext(f"{ATOM}id")
    assert (links["self"] or "").endswith("/changes.atom?kind=mlModel")
    assert (links["alternate"] or "").endswith("/changes?kind=mlModel")
    entries = feed.findall(f"{ATOM}entry")
    assert feed.findtext(f"{ATOM}updated") == entries[0].findtext(f"{ATOM}updated")
    for element in (feed, *entries):
        for name in ("id", "title", "updated"):
            (one,) = element.findall(f"{ATOM}{name}")
            assert one.text
        moment = datetime.fromisoformat(element.findtext(f"{ATOM}updated") or "")
        assert moment.utcoffset() is not None
    for entry in entries:
        assert entry.findtext(f"{ATOM}author/{ATOM}name")
        assert (entry.findtext(f"{ATOM}id") or "").startswith("urn:uuid:")
        UUID(entry.findtext(f"{ATOM}id"))
        (link,) = entry.findall(f"{ATOM}link")
        assert link.get("rel") == "alternate"
        assert (link.get("href") or "").startswith("http://")
    assert "added description: by ada\n" in (entries[0].findtext(f"{ATOM}content") or "")


def test_the_entries_of_the_feed_keep_their_identity(filled: Store, clock: list[int]) -> None:
    def ids() -> list[str | None]:
        feed = feed_of(filled)
        return [one.findtext(f"{ATOM}id") for one in feed.findall(f"{ATOM}entry")]

    before = ids()
    clock[0] += 1
    write(filled, model("m0"), {"name": "again"}, ADA)
    assert ids()[1:] == before
    assert len(set(ids())) == len(before) + 1


def test_a_feed_without_entries_is_one(store: Store) -> None:
    feed = feed_of(store)
    assert feed.findtext(f"{ATOM}updated") == "1970-01-01T00:00:00+00:00"
    assert feed.findall(f"{ATOM}entry") == []


@pytest.mark.parametrize("target", ["/changes", "/changes?by=ada&group=x"])
def test_the_feed_is_found_from_the_pages(filled: Store, target: str) -> None:
    feed = target.replace("/changes", "/changes.atom")
    link = '<link rel="alternate" type="application/atom+xml" title="What changed" href="{}">'
    assert link.format(feed.replace("&", "&amp;")) in get(filled, target).text
    assert link.format("/changes.atom") in get(filled, "/").text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_stay_texts(store: Store, clock: list[int], name: str) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": name})
    clock[0] += 1
    value = {"name": name, "description": name, "customProperties": {name: name}}
    write(store, urn, value, f"urn:li:corpuser:{name}", run=name)
    assert page(store, "/changes").tags.count("script") == 1
    feed = feed_of(store, f"?group={quote(name)}")
    assert feed.findtext(f"{ATOM}title")
    (latest, _) = feed_of(store).findall(f"{ATOM}entry")
    shown = " ".join((latest.findtext(f"{ATOM}title") or "").split())
    assert "changed" in shown
    assert {child.tag for child in latest} <= {
        f"{ATOM}{tag}"
        for tag in ("id", "title", "updated", "author", "category", "link", "content")
    }


# --- the first page ------------------------------------------------------------------------------


def test_the_first_page_shows_the_last_days_changes(
    store: Store, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.web.ui.changes.now_ms", lambda: NOON_MS + 2 * DAY_MS)
    write(store, model("a"), {"name": "a"})
    assert "Changed in the last day Nothing. All changes" in page(store, "/").text
    clock[0] += DAY_MS + 1
    write(store, model("b"), {"name": "b"})
    clock[0] += 1
    write(store, model("a"), {"name": "a", "description": "x"}, ADA)
    put(store, model("b"), status={"removed": True})
    found = page(store, "/")
    assert (
        "Changed in the last day "
        "12:00 UTC by a person or tool 1 Model removed : b 1 Model created : b "
        "12:00 UTC by ada 1 Model changed : a All changes" in found.text
    )
    assert "/changes" in found.links


def test_no_ingestion_hides_what_people_changed_that_day(
    store: Store, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.web.ui.changes.now_ms", lambda: NOON_MS + 1)
    write(store, model("m"), {"name": "m"}, ADA)
    clock[0] += 1
    urns = [model(f"m{number}") for number in range(PAGE_ROWS + 1)]
    store.write([Write(urn, "mlModelProperties", {"name": urn}) for urn in urns])
    found = page(store, "/").text
    assert f"by a person or tool at least {PAGE_ROWS} Models created" in found
    assert "by ada 1 Model created : m All changes" in found
