"""The pages of metadata tests: rules in words, counts, and the form that evaluates a test."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.rest.operations import evaluate_stored
from mlcat_ingest.catalog.web.ui import lists, metadata_tests
from mlcat_ingest.catalog.web.ui.metadata_tests import rule_in_words
from mlcat_ingest.catalog.web.ui.text import visible
from support.asgi import Answer, call
from support.catalog_store import group, model, open_store, put, statements
from support.names import HOSTILE
from support.pages import HTML, Browser, Reader, at, form_of, page

ADA = "urn:li:corpuser:ada"
TEST = "urn:li:test:t"
AUC = "mlModelProperties.trainingMetrics.auc"
TOKEN, READ_TOKEN = "write-token", "read-token"


def compared(path: str, operator: str, *values: str) -> dict[str, Any]:
    return {"property": path, "operator": operator, "values": list(values)}


DESCRIBED = compared("mlModelProperties.description", "exists")


def add_test(store: Store, rules: Any, urn: str = TEST, **on: Any) -> str:
    text = json.dumps({"on": {"types": ["mlModel"], **on}, "rules": rules})
    return put(store, urn, testInfo=info(text))


def info(text: str) -> dict[str, Any]:
    return {"name": "T", "category": "ml", "definition": {"type": "JSON", "json": text}}


def rule(store: Store, rules: Any, **on: Any) -> str:
    """Return the card of a test's rule as a reader sees it."""
    text = page(store, at(add_test(store, rules, **on))).text
    return text[text.index("Applies to") : text.index(" Run now")].replace(" ,", ",")


# --- the rule in words ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (DESCRIBED, "description is set"),
        ({"not": DESCRIBED}, "description is not set"),
        ({"not": {"not": DESCRIBED}}, "description is set"),
        (compared(AUC, "greater_than", "0.9"), "metric auc is greater than “0.9”"),
        (compared(AUC, "less_than", "0.9"), "metric auc is less than “0.9”"),
        (compared("mlModelProperties.hyperParams.a.b", "exists"), "parameter a.b is set"),
        (compared("mlModelProperties.customProperties.team", "equals", "x", "y"),
         "property team is one of “x”, “y”"),
        (compared("globalTags.tags.tag", "not", "urn:li:tag:pii"), "tag is not pii"),
        ({"not": compared("globalTags.tags.tag", "not", "urn:li:tag:pii")}, "tag is pii"),
        ({"not": compared("mlModelProperties.name", "starts_with", "a", "b")},
         "name does not start with any of “a”, “b”"),
        (compared("mlModelProperties.name", "contains_str", "a"), "name contains “a”"),
        (compared("mlModelProperties.name", "regex_match", "a.*"), "name matches “a.*”"),
        (compared("ownership.owners.length", "greater_than", "1"),
         "number of values of owner is greater than “1”"),
        (compared("mlModelProperties.version.versionTag", "exists"),
         "version / version tag is set"),
        (compared("deprecation.deprecated", "is_true"), "deprecated is true"),
        (compared("x", "schema_fields_have_descriptions"),
         "every field of the schema has a description"),
        ([DESCRIBED, {"or": [DESCRIBED, {"not": DESCRIBED}]}],
         ("all of these hold: description is set at least one of these holds: "
          "description is set description is not set")),
        ({"not": [DESCRIBED, DESCRIBED]},
         "not all of these hold: description is set description is set"),
        ({"not": {"or": [DESCRIBED, DESCRIBED]}},
         "none of these holds: description is set description is set"),
        ({"and": [DESCRIBED]}, "description is set"),
        ([], "every entity"),
        ({"not": []}, "no entity"),
        ({"or": []}, "no entity"),
        ({"not": {"or": []}}, "every entity"),
    ],
)  # fmt: skip
def test_a_rule_is_shown_in_words(store: Store, rules: Any, words: str) -> None:
    assert rule(store, rules) == f"Applies to Models Passes where {words}"


def test_a_rule_says_which_entities_it_selects(store: Store) -> None:
    put(store, ADA, corpUserInfo={"active": True, "displayName": "Ada L."})
    owned = compared("ownership.owners.owner", "equals", ADA)
    assert rule(store, [], types=["MLMODEL", "mlModelGroup", "nope"], conditions=owned) == (
        "Applies to Model groups and Models Only where owner is Ada L. Passes where every entity"
    )
    assert at(ADA) in page(store, at(TEST)).links
    assert "no entity, as it names no entity type" in rule(store, [], types=[])


@pytest.mark.parametrize("text", ["{}", "", "[]", "{", '{"on": {"types": ["mlModel"]}}', "null",
                                  "[" * 400 + "]" * 400])  # fmt: skip
def test_a_definition_without_words_is_shown_as_it_is(store: Store, text: str) -> None:
    rule = rule_in_words(store, info(text))
    assert rule.problem
    # An earlier version stored definitions unchecked.
    put(store, TEST, testInfo=info("{}"))
    replace_definition(store, text)
    found = page(store, at(TEST))
    assert "This test is not evaluated here: the" in found.text
    assert "Run now" not in found.text


def replace_definition(store: Store, text: str) -> None:
    """Replace the definition in the database itself."""
    with store._engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE aspect SET value = ? WHERE aspect = 'testInfo'", (json.dumps(info(text)),)
        )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_in_a_rule_stay_texts(store: Store, name: str) -> None:
    text = f"a {HOSTILE[name]}".replace("\0", "")
    rules = compared(
        f"mlModelProperties.trainingMetrics.{text}", "equals", text, f"urn:li:x:{text}"
    )
    add_test(store, rules)
    found = page(store, at(TEST))
    assert " ".join(visible(f"metric {text} is one of “{text}”").split()) in found.text
    assert found.tags.count("script") == 1


# --- counts --------------------------------------------------------------------------------------


def test_the_list_of_tests_counts_their_outcomes_with_one_statement(store: Store) -> None:
    add_test(store, DESCRIBED)
    add_test(store, [], "urn:li:test:all")
    add_test(store, [], "urn:li:test:never", types=["dataset"])
    models = [
        put(store, model("a"), mlModelProperties={"description": "d"}),
        put(store, model("b"), mlModelProperties={}),
        put(store, model("gone"), mlModelProperties={}),
    ]
    evaluate_stored(store, models, None, push=True)
    put(store, model("gone"), status={"removed": True})
    with statements(store) as few:
        found = page(store, "/kind/test")
    assert "Name Failing Passing T 0 0 T 0 2 T 1 1" in found.text
    for number in range(20):
        add_test(store, DESCRIBED, f"urn:li:test:more{number}")
    evaluate_stored(store, models, None, push=True)
    with statements(store) as many:
        page(store, "/kind/test")
    assert len(many) == len(few)


def test_outcomes_are_counted_up_to_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "COUNTED", 2)
    add_test(store, DESCRIBED)
    for number, shown in ((1, "1"), (2, "2"), (3, "2+"), (4, "2+")):
        put(store, model(f"m{number}"), mlModelProperties={})
        press(store)
        assert f"T {shown} 0 " in page(store, "/kind/test").text


# --- evaluation now ------------------------------------------------------------------------------


def press(store: Store, urn: str = TEST, **fields: str) -> Reader:
    """Send the form of a test to a catalog without a token, as its page has it."""
    browser = Browser(create_app(store))
    shown = form_of(browser.get(at(urn)))
    answer = browser.post(at(urn), {**shown, **fields})
    assert answer.status == 200, answer.text
    return Reader(answer.text)


def test_run_now_stores_the_outcomes_and_shows_what_changed(store: Store) -> None:
    put(store, model("good"), mlModelProperties={"name": "Good", "description": "d"})
    put(store, model("bad"), mlModelProperties={"name": "Bad"})
    put(store, model("gone"), mlModelProperties={}, status={"removed": True})
    put(store, group("g"), mlModelGroupProperties={})
    add_test(store, DESCRIBED)
    first = press(store)
    assert "2 entities: 1 passing, 1 failing. 2 changed." in first.text
    assert "Good Model not tested ✓ passing" in first.text
    assert "Bad Model not tested ✗ failing" in first.text
    assert at(model("bad")) in page(store, at(TEST, "?tab=failing")).links
    assert "2 entities: 1 passing, 1 failing. Nothing changed." in press(store).text
    put(store, model("bad"), mlModelProperties={"name": "Bad", "description": "d"})
    assert "1 changed. Name Kind Before Now Bad Model ✗ failing ✓ passing" in press(store).text


def test_run_now_takes_back_outcomes_of_entities_that_the_test_has_left(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"name": "M"})
    add_test(store, DESCRIBED)
    press(store)
    add_test(store, DESCRIBED, types=["mlModelGroup"])
    found = press(store)
    assert "1 entity: 0 passing, 0 failing. 1 changed." in found.text
    assert "M Model ✗ failing not tested" in found.text
    assert "Failing 0" in found.text


def test_run_now_leaves_the_outcomes_of_other_tests(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    add_test(store, DESCRIBED)
    add_test(store, [], "urn:li:test:other")
    press(store, "urn:li:test:other")
    press(store)
    assert "Tests 2" in page(store, at(urn)).text


def test_many_entities_are_evaluated_press_by_press(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_tests, "CHUNK", 2)
    monkeypatch.setattr(metadata_tests, "AT_ONCE", 4)
    monkeypatch.setattr(metadata_tests, "SHOWN_CHANGES", 3)
    for number in range(5):
        put(store, model(f"m{number}"), mlModelProperties={})
    add_test(store, DESCRIBED)
    browser = Browser(create_app(store))
    first = browser.post(at(TEST), form_of(browser.get(at(TEST))))
    assert "4 entities: 0 passing, 4 failing. 4 changed, of which 3 are shown." in first.text
    assert "Evaluate the next entities" in first.text
    rest = browser.post(at(TEST), form_of(first))
    assert "1 entity: 0 passing, 1 failing. 1 changed." in rest.text
    assert "Run now" in rest.text
    assert 'Failing <span class="count">5' in rest.text


@pytest.mark.parametrize("urn", [model("m"), "urn:li:test:none", "no-urn", "urn:li:test:empty"])
def test_only_tests_are_run(store: Store, urn: str) -> None:
    put(store, model("m"), mlModelProperties={})
    put(store, "urn:li:test:empty", testInfo=info("{}"))
    add_test(store, DESCRIBED)
    browser = Browser(create_app(store))
    answer = browser.post(at(urn), form_of(browser.get(at(TEST))))
    assert answer.status == 400
    assert answer.headers["content-type"].startswith("text/html")


# --- who may -------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Starlette]:
    with closing(open_store(tmp_path / "guarded.db")) as store:
        put(store, model("m"), mlModelProperties={})
        add_test(store, DESCRIBED)
        app = create_app(store, token=TOKEN, read_token=READ_TOKEN)
        yield app
        app.state.tasks.close()


def outcomes(app: Starlette, token: str = TOKEN) -> str:
    answer = call(app, "GET", at(TEST), headers={"authorization": f"Bearer {token}"})
    return "evaluated" if 'Failing <span class="count">1' in answer.text else "not evaluated"


def test_a_session_of_the_token_that_writes_runs_a_test(guarded: Starlette) -> None:
    browser = Browser(guarded)
    browser.sign_in(TOKEN)
    answer = browser.post(at(TEST), form_of(browser.get(at(TEST))))
    assert answer.status == 200
    assert "1 entity: 0 passing, 1 failing." in answer.text
    assert outcomes(guarded) == "evaluated"


def test_a_session_that_only_reads_has_no_button_and_is_refused(guarded: Starlette) -> None:
    browser = Browser(guarded)
    browser.sign_in(READ_TOKEN)
    shown = browser.get(at(TEST))
    assert "Run now" not in shown.text
    answer = browser.post(at(TEST), form_of(shown))
    assert answer.status == 403
    assert "only permits reading" in answer.text
    assert outcomes(guarded) == "not evaluated"


def test_the_form_is_bound_to_its_session(guarded: Starlette) -> None:
    browser, other = Browser(guarded), Browser(guarded)
    browser.sign_in(TOKEN)
    other.sign_in(TOKEN)
    for fields in ({}, {"csrf": "é"}, form_of(other.get(at(TEST)))):
        assert browser.post(at(TEST), fields).status == 403
    browser.cookies.clear()
    assert browser.post(at(TEST), form_of(other.get(at(TEST)))).status == 401
    assert outcomes(guarded) == "not evaluated"


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 200), (READ_TOKEN, 403), ("wrong", 401)])
def test_a_token_needs_no_form(guarded: Starlette, token: str, status: int) -> None:
    answer = call(guarded, "POST", at(TEST), headers={"authorization": f"Bearer {token}"})
    assert answer.status == status
    assert outcomes(guarded) == ("evaluated" if status == 200 else "not evaluated")


def post(app: Starlette, fields: dict[str, str], **headers: str) -> Answer:
    return call(app, "POST", at(TEST), urlencode(fields).encode(), {"accept": HTML, **headers})


def test_without_a_token_other_sites_cannot_run_a_test(store: Store) -> None:
    put(store, model("m"), mlModelProperties={})
    add_test(store, DESCRIBED)
    app = create_app(store)
    form = form_of(Browser(app).get(at(TEST)))
    for origin in ("https://evil.example", "null", "http://127.0.0.1:7002"):
        assert post(app, form, origin=origin).status == 403
    # An old browser names no origin; the page of another site cannot read the token of the form.
    for fields in (
        {},
        {"csrf": ""},
        {"csrf": "x"},
        form_of(Browser(create_app(store)).get(at(TEST))),
    ):
        assert post(app, fields).status == 403
    rebound = call(app, "POST", at(TEST), urlencode(form).encode(), hosts=("evil.example",))
    assert rebound.status == 421
    assert "Failing 0" in page(store, at(TEST)).text
    assert post(app, form, origin="http://127.0.0.1:7001").status == 200
    assert "Failing 1" in page(store, at(TEST)).text


def test_a_form_of_the_pages_is_limited(store: Store) -> None:
    add_test(store, DESCRIBED)
    assert post(create_app(store), {"field": "x" * 1_000_000}).status == 413
