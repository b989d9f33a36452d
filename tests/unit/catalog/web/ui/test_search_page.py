"""The search page and what it offers while somebody types."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.pages import Renderer, ui_routes
from support.asgi import Answer, call
from support.catalog_store import group, model, open_store, put, put_test

RENDERER = Renderer()
JANE = "urn:li:corpuser:jane"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(open_store(tmp_path_factory.mktemp("catalog") / "c.db")) as opened:
        put(opened, JANE, corpUserInfo={"active": True, "displayName": "Jane D."})
        put(opened, group("churn"), mlModelGroupProperties={"name": "Churn"})
        for at in range(60):
            put(
                opened,
                model(f"m{at}"),
                mlModelProperties={
                    "name": f"churn-{at}",
                    "description": f"{'x ' * 100} who leaves & <why> {'y ' * 200}",
                    "trainingMetrics": [{"name": "auc", "value": str(at / 100)}],
                },
                globalTags={"tags": [{"tag": "urn:li:tag:gold"}] if at < 5 else []},
                ownership={"owners": [{"owner": JANE, "type": "DATAOWNER"}] if at < 3 else []},
            )
        best = {"name": "best iteration", "value": "3"}
        for name, loss, more in (("large", "2", [best]), ("small", "1", [])):
            put(
                opened,
                model(name),
                mlModelProperties={
                    "name": name,
                    "trainingMetrics": [{"name": "val_loss", "value": loss}, *more],
                    "hyperParams": [{"name": "depth", "value": "3"}],
                    "customProperties": {"mlflow.duration_ms": "90"},
                },
            )
        yield opened


def get(store: Store, target: str) -> Answer:
    return call(Starlette(routes=ui_routes(store, RENDERER)), "GET", target)


def test_the_best_hit_is_first_and_hits_are_marked(store: Store) -> None:
    found = get(store, "/search?q=churn").text
    assert 'Search <span class="count">61</span>' in found
    first = found.index("<bdi><mark>Churn</mark></bdi>")
    assert first < found.index("<bdi><mark>churn</mark>-0</bdi>")
    assert "1 to 50 of 61" in found
    assert "/search?q=churn&amp;start=50" in found


def test_the_part_of_a_text_that_was_hit_is_shown(store: Store) -> None:
    found = get(store, "/search?q=leaves+metrics.auc%3D0.07").text
    assert "Description: <bdi>…" in found
    assert "x who <mark>leaves</mark> &amp; &lt;why&gt; y" in found
    assert "…</bdi>" in found


def test_choices_narrow_and_widen(store: Store) -> None:
    found = get(store, "/search?q=churn").text
    assert '<bdi>Models</bdi> <span class="count">60</span>' in found
    assert '<bdi>Jane D.</bdi> <span class="count">3</span>' in found
    gold = f"/search?q=churn&amp;tag={quote('urn:li:tag:gold', safe='')}"
    assert f'<a href="{gold}"><bdi>gold</bdi> <span class="count">5</span>' in found
    narrowed = get(store, gold.replace("&amp;", "&")).text
    assert 'Search <span class="count">5</span>' in narrowed
    assert '<a href="/search?q=churn" aria-current="true"><bdi>gold</bdi>' in narrowed
    assert f"{gold}&amp;owner={quote(JANE, safe='')}" in narrowed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("%", "No results."), ("nothing", "No results."), ("\x00", "No results.")),
        ("<script>", "no field `script`"),
        ('"', "a quote is not closed"),
        ("a:b>c", "no field `a`"),
        ("tag:", "syntax error at its end"),
        ("(((", "syntax error at its end"),
        ("experiment:credit-risk", "no field `experiment`; did you mean `group`?"),
        ("metrics.auc>abc", "metrics.auc is compared with a number"),
        ("metrics.acu>0.1", "no entity has `metrics.acu`; did you mean `metrics.auc`?"),
        ("params.lr<1 OR tag:x", "no entity has `params.lr`"),
        ("metrics.auc>99", "No results."),
    ],
)
def test_whatever_is_typed_has_a_page(store: Store, text: str, shown: str) -> None:
    answer = get(store, f"/search?q={quote(text)}&type=%00&platform=<b>&start=x")
    assert answer.status == 200
    assert shown in answer.text
    assert "<b>" not in answer.text


def test_the_nearest_metric_is_named_as_a_query_takes_it(store: Store) -> None:
    wrong = quote('metrics."best itration">1')
    answer = get(store, f"/search?q={wrong}").text
    assert r"did you mean `metrics.best\ iteration`?" in answer
    for name in (r"metrics.best\ iteration", 'metrics."best iteration"'):
        assert 'Search <span class="count">1<' in get(store, f"/search?q={quote(f'{name}>1')}").text


def hits(found: str) -> list[str]:
    """Return the names of the hits, in their order."""
    return re.findall(r'<p class="hit"><a [^>]*><bdi>(.*?)</bdi>', found)


def orders(found: str) -> dict[str, str]:
    """Return the offered orders with their addresses; a `*` is before the chosen one."""
    (row,) = re.findall(r'<p class="orders">(.*?)</p>', found)
    links = re.findall(r'<a href="([^"]*)"( aria-current="true")?><bdi>(.*?)</bdi></a>', row)
    return {f"{'*' * bool(current)}{label}": unescape(href) for href, current, label in links}


def test_the_searched_metric_is_shown_and_orders_the_hits_the_best_first(store: Store) -> None:
    found = get(store, "/search?q=metrics.auc%3E0.5").text
    assert hits(found)[:2] == ["churn-59", "churn-58"]
    assert "<dt><bdi>auc</bdi></dt> <dd><bdi>0.59</bdi></dd>" in found
    offered = orders(found)
    assert list(offered) == ["*auc, highest first", "auc, lowest first", "newest first"]
    turned = get(store, offered["auc, lowest first"]).text
    assert hits(turned)[:2] == ["churn-51", "churn-52"]
    assert "*auc, lowest first" in orders(turned)


def test_of_a_loss_the_lowest_is_first_and_a_parameter_is_shown_as_well(store: Store) -> None:
    found = get(store, "/search?q=metrics.val_loss%3C9+hyperParams.depth%3E0").text
    assert hits(found) == ["small", "large"]
    assert "<dt><bdi>depth</bdi></dt> <dd><bdi>3</bdi></dd>" in found
    offered = list(orders(found))
    assert offered[:3] == [
        "*val_loss, lowest first",
        "val_loss, highest first",
        "depth, lowest first",
    ]


def test_words_put_the_best_match_first_and_their_hits_are_ordered_too(store: Store) -> None:
    found = get(store, "/search?q=churn+metrics.auc%3E0.5").text
    assert next(iter(orders(found))) == "*best match"
    best = get(store, orders(found)["auc, highest first"]).text
    assert hits(best)[0] == "<mark>churn</mark>-59"
    assert hits(get(store, orders(best)["best match"]).text) == hits(found)


def test_choices_and_pages_keep_the_order(store: Store) -> None:
    found = get(store, "/search?q=churn&sort=metrics.auc").text
    assert "/search?q=churn&amp;sort=metrics.auc&amp;type=mlModel" in found
    assert "/search?q=churn&amp;sort=metrics.auc&amp;start=50" in found


def test_a_searched_duration_has_its_name(store: Store) -> None:
    found = get(store, "/search?q=duration_ms%3E10").text
    offered = {"*duration_ms, lowest first", "duration_ms, highest first"}
    assert offered <= orders(found).keys()


def test_without_words_the_newest_is_first(store: Store) -> None:
    found = get(store, "/search?q=platform:mlflow").text
    assert hits(found)[0] == "small"
    assert "Sort by" not in found


@pytest.mark.parametrize("sort", ["nope", "-metrics.", "<b>", "owner"])
def test_an_order_that_does_not_exist_is_named(store: Store, sort: str) -> None:
    found = get(store, f"/search?q=churn&sort={quote(sort)}").text
    assert "sort: no metric or parameter `" in found
    assert "<b>" not in found


@pytest.mark.parametrize(("text", "expected"), [("name:churn", True), ("tag:gold", False)])
def test_a_page_names_a_filter_without_an_index(store: Store, text: str, *, expected: bool) -> None:
    assert ("No index answers this filter" in get(store, f"/search?q={text}").text) is expected


def test_a_suggestion_names_an_unknown_field(store: Store) -> None:
    (suggestion,) = json.loads(get(store, "/search/suggest?q=ownre:jane").text)
    assert "no field `ownre`; did you mean `owner`?" in suggestion["name"]
    assert "did you mean `owner`?" in get(store, suggestion["href"]).text
    unfinished = json.loads(get(store, "/search/suggest?q=churn+(").text)
    assert unfinished[0]["name"] == "Churn"


def test_suggestions_are_few_and_the_best(store: Store) -> None:
    answer = get(store, "/search/suggest?q=chu")
    assert answer.headers["content-type"] == "application/json"
    found = json.loads(answer.text)
    assert len(found) == 8
    assert found[0] == {
        "name": "Churn",
        "kind": "Model group",
        "place": "",
        "href": f"/entity/{quote(group('churn'), safe='')}",
    }
    assert json.loads(get(store, "/search/suggest?q=").text) == []
    assert json.loads(get(store, "/search/suggest").text) == []


@pytest.fixture
def described(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "c.db")) as opened:
        put(opened, "urn:li:tag:pii", tagProperties={"name": "Personal data"})
        put(opened, group("g"), mlModelGroupProperties={"name": "Churn runs"})
        put_test(opened, "t")
        put(
            opened,
            model("m"),
            mlModelProperties={
                "name": "bold hare",
                "description": "Who leaves <b>next</b>?",
                "groups": [group("g")],
                "customProperties": {
                    "mlflow.status": "FAILED",
                    "logged": '[{"name": "screening_logistic", "step": 0}]',
                },
            },
            globalTags={"tags": [{"tag": "urn:li:tag:pii"}]},
            versionProperties={
                "versionSet": "urn:li:versionSet:(s,mlModel)",
                "version": {"versionTag": "3"},
                "aliases": [{"versionTag": "champion"}],
                "sortId": "3",
                "versioningScheme": "ALPHANUMERIC_GENERATED_BY_DATAHUB",
            },
            testResults={"failing": [{"test": "urn:li:test:t", "type": "FAILURE"}], "passing": []},
        )
        yield opened


def snippets(found: str) -> list[str]:
    """Return the texts of the hits, the marked words in brackets."""
    texts = re.findall(r'<p class="dim snippet">(.*?)</p>', found)
    return [
        re.sub("<.*?>", "", text.replace("<mark>", "[").replace("</mark>", "]")) for text in texts
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hare", ["Description: Who leaves &lt;b&gt;next&lt;/b&gt;?"]),
        ("leaves", ["Description: Who [leaves] &lt;b&gt;next&lt;/b&gt;?"]),
        ("personal", []),
        ("pii", ["Tag: Personal data ([pii])", "URN: urn:li:tag:[pii]"]),
        ("urn:li:mlModel", []),
        ("mlflow hare", ["Property: [mlflow].status=FAILED"]),
        ("prod hare", ["URN: urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,[PROD])"]),
        ("champion", ["Alias: [champion]"]),
        ("hare pii champion", ["Tag: Personal data ([pii])", "Alias: [champion]"]),
        ("screening", ["Property: logged=name: [screening]_logistic, step: 0"]),
    ],
)
def test_a_hit_shows_the_words_that_matched(described: Store, text: str, shown: list[str]) -> None:
    assert sorted(snippets(get(described, f"/search?q={quote(text)}").text)) == sorted(shown)


@pytest.mark.parametrize(
    ("choice", "label"),
    [
        (f"group={quote(group('g'), safe='')}", "Churn runs"),
        *(
            ("status=FAILED", "FAILED"),
            ("alias=champion", "champion"),
            ("tests=failing", "failing"),
        ),
    ],
)
def test_choices_are_of_groups_states_aliases_and_tests(
    described: Store, choice: str, label: str
) -> None:
    link = f'<a href="/search?q=hare&amp;{choice}"><bdi>{label}</bdi> <span class="count">1</span>'
    assert link in get(described, "/search?q=hare").text
    chosen = get(described, f"/search?q=hare&{choice}").text
    assert hits(chosen) == ["bold <mark>hare</mark>"]
    assert f'<a href="/search?q=hare" aria-current="true"><bdi>{label}</bdi>' in chosen


def test_choices_of_one_name_have_their_kind_and_place(tmp_path: Path) -> None:
    kinds = {"a": ("ML Experiment", []), "b": ("Registered Model", [{"id": "two"}])}
    with closing(open_store(tmp_path / "c.db")) as store:
        for name, (kind, path) in kinds.items():
            put(store, group(name), mlModelGroupProperties={"name": "fraud"},
                subTypes={"typeNames": [kind]}, browsePathsV2={"path": path})  # fmt: skip
            put(store, model(name), mlModelProperties={"name": "x", "groups": [group(name)]})
        found = get(store, "/search?q=x").text
    for label in ("fraud (ML Experiment)", "fraud (Registered Model, two)"):
        assert f'<bdi>{label}</bdi> <span class="count">1</span>' in found


def test_a_choice_can_be_taken_back_where_nothing_is_found(described: Store) -> None:
    found = get(described, "/search?q=hare&alias=other").text
    assert '<a href="/search?q=hare" aria-current="true"><bdi>other</bdi>' in found


def test_each_search_box_leads_to_examples_that_are_searches(described: Store) -> None:
    link = '<a class="help" href="/search/help" aria-label="How to search">'
    assert get(described, "/").text.count(link) == 1
    assert get(described, f"/entity/{quote(group('g'), safe='')}").text.count(link) == 2
    examples = re.findall(
        r'<a href="(/search\?q=[^"]*)"><code>', get(described, "/search/help").text
    )
    assert len(examples) > 20
    for example in examples:
        problem = get(described, unescape(example)).text.partition("query: ")[2]
        assert problem.startswith("no entity has") or not problem, example


def test_the_examples_have_every_field_of_the_reference(described: Store) -> None:
    reference = Path(__file__).parents[5] / "docs" / "reference" / "search.md"
    table = reference.read_text().partition("| field | means |")[2].partition("\n\n")[0]
    names = re.findall(r"`([^`]+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
    help_page = get(described, "/search/help").text
    known = [name.partition(".")[0] for name in names if name != "onlineMetrics.<name>"]
    assert [name for name in known if not re.search(rf"\b{name}\b", help_page)] == []


def test_the_script_is_served_and_needs_nothing_from_elsewhere(store: Store) -> None:
    answer = get(store, "/static/search.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    for unsafe in (b"http:", b"https:", b"innerHTML", b"eval(", b"document.write"):
        assert unsafe not in answer.body
