"""The form by which users edit an entity: what it saves, what it refuses, and who may send it."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from support.asgi import Answer, call
from support.catalog_store import model, open_store, put
from support.names import HOSTILE
from support.pages import HTML, Browser, at, form_of

TOKEN, READ_TOKEN = "write-token", "read-token"
M = model("m")
FORM = at(M, "?edit=1")
JANE = "urn:li:corpuser:jane"
TECHNICAL = "urn:li:ownershipType:__system__technical_owner"


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "catalog.db")) as opened:
        put(opened, M, mlModelProperties={"description": "by the source"})
        yield opened


@pytest.fixture
def app(stored: Store) -> Iterator[Starlette]:
    made = create_app(stored, token=TOKEN, read_token=READ_TOKEN)
    yield made
    made.state.tasks.close()


@pytest.fixture
def jane(app: Starlette) -> Browser:
    browser = Browser(app)
    browser.sign_in(TOKEN, name="jane")
    return browser


def fields(shown: Answer) -> dict[str, str | list[str]]:
    """Return what a browser sends of the form as it is in a page."""
    texts = re.findall(r'<textarea id="(\w+)"[^>]*>\n(.*?)</textarea>', shown.text, re.DOTALL)
    inputs = re.findall(r'<input id="(\w+)" name="\w+"[^>]* value="([^"]*)"', shown.text)
    found = {name: unescape(text).replace("\n", "\r\n") for name, text in (*texts, *inputs)}
    checked = re.findall(r'name="(deprecated)" checked', shown.text)
    found |= form_of(shown) | {"owner_type": "TECHNICAL_OWNER"} | dict.fromkeys(checked, "on")
    found.pop("q", None)
    return {**found, "remove": re.findall(r'value="([^"]*)" checked', unescape(shown.text))}


def submit(browser: Browser, shown: Answer | None = None, **typed: str | list[str]) -> Answer:
    """Send the form of `shown`, or of a fresh page, with what was typed."""
    return browser.post(at(M), {**fields(shown or browser.get(FORM)), **typed})


def saved(browser: Browser, **typed: str | list[str]) -> None:
    answer = submit(browser, None, **typed)
    assert (answer.status, answer.headers.get("location")) == (303, at(M)), answer.text


def value(store: Store, aspect: str) -> Any:
    found = store.get_many([M], {aspect})[M].get(aspect)
    return None if found is None else found.value


def removals(shown: Answer) -> list[str]:
    found = re.findall(r'name="remove" value="([^"]*)"', shown.text)
    return [unescape(one) for one in found]


def test_all_fields_are_saved_in_the_name_of_the_user(stored: Store, jane: Browser) -> None:
    saved(
        jane,
        description="# Use\r\nby jane",
        tag="gold",
        owner="jane",
        url="https://x.example",
        label="Wiki",
        deprecated="on",
        note="old",
    )
    assert value(stored, "editableMlModelProperties") == {"description": "# Use\nby jane"}
    assert value(stored, "globalTags") == {"tags": [{"tag": "urn:li:tag:gold"}]}
    (owner,) = value(stored, "ownership")["owners"]
    assert (owner["owner"], owner["typeUrn"]) == (JANE, TECHNICAL)
    (link,) = value(stored, "institutionalMemory")["elements"]
    assert (link["url"], link["description"]) == ("https://x.example", "Wiki")
    assert link["createStamp"]["actor"] == JANE
    deprecation = {"deprecated": True, "note": "old", "actor": JANE}
    assert value(stored, "deprecation") == deprecation
    aspects = stored.get_many([M])[M]
    assert {aspects[name].modified_by for name in aspects} == {UNKNOWN_ACTOR, JANE}
    # The tag and the user are entities now.
    assert stored.exists(["urn:li:tag:gold", JANE]) == {"urn:li:tag:gold", JANE}
    history = jane.get(at(M, "?tab=history")).text
    assert "jane" in history
    shown = jane.get(at(M)).text
    assert "by jane" in shown
    assert "by the source" not in shown
    assert "Deprecated" in shown


@pytest.mark.parametrize("text", ["a\r\n\r\nb", "a\rb", "\r\na\n\r", "a\0b"])
def test_what_is_not_changed_is_not_written(stored: Store, jane: Browser, text: str) -> None:
    put(stored, M, editableMlModelProperties={"description": text},
        deprecation={"deprecated": True, "note": "", "actor": JANE, "decommissionTime": 5},
        globalTags={"tags": [{"tag": "urn:li:tag:a", "context": "{}"}]})  # fmt: skip
    before = stored.get_many([M])
    saved(jane)
    assert stored.get_many([M]) == before


def test_entries_are_removed_one_by_one(stored: Store, jane: Browser) -> None:
    owner = {"owner": JANE, "type": "TECHNICAL_OWNER"}
    stamp = {"time": 1, "actor": JANE}
    link = {"url": "https://x.example", "description": 'a "b"\nc', "createStamp": stamp}
    put(stored, M, globalTags={"tags": [{"tag": "urn:li:tag:a"}, {"tag": "urn:li:tag:b"}]},
        ownership={"owners": [owner, {**owner, "type": "DATA_STEWARD"}]},
        institutionalMemory={"elements": [link, {**link, "description": "kept"}]})  # fmt: skip
    shown = jane.get(FORM)
    assert "jane, technical owner" in unescape(re.sub(r"</?bdi>", "", shown.text))
    keys = removals(shown)
    chosen = [keys[0], keys[2], keys[4]]
    # Meanwhile another user adds a tag: both count.
    put(stored, M, globalTags={"tags": [{"tag": f"urn:li:tag:{name}"} for name in "abc"]})
    assert submit(jane, shown, remove=chosen).status == 303
    assert value(stored, "globalTags") == {"tags": [{"tag": f"urn:li:tag:{x}"} for x in "bc"]}
    assert [one["type"] for one in value(stored, "ownership")["owners"]] == ["DATA_STEWARD"]
    assert [one["description"] for one in value(stored, "institutionalMemory")["elements"]] == [
        "kept"
    ]


def test_a_conflict_shows_both_texts_and_loses_neither(stored: Store, jane: Browser) -> None:
    put(stored, M, editableMlModelProperties={"description": "first"})
    shown = jane.get(FORM)
    put(stored, M, editableMlModelProperties={"description": "theirs"})
    refused = submit(jane, shown, description="mine", tag="gold")
    assert refused.status == 409
    assert value(stored, "editableMlModelProperties") == {"description": "theirs"}
    assert value(stored, "globalTags") is None
    again = fields(refused)
    assert (again["description"], again["tag"]) == ("mine", "gold")
    assert re.search(r"<blockquote[^>]*>theirs</blockquote>", refused.text)
    assert (
        'id="description" name="description" rows="5" dir="auto" aria-invalid="true"'
        in refused.text
    )
    assert jane.post(at(M), again).status == 303
    assert value(stored, "editableMlModelProperties") == {"description": "mine"}
    assert stored.get_version(M, "editableMlModelProperties", 2) is not None
    assert value(stored, "globalTags") == {"tags": [{"tag": "urn:li:tag:gold"}]}


def test_the_same_text_is_no_conflict_and_the_version_seen_is_kept(
    stored: Store, jane: Browser
) -> None:
    shown = jane.get(FORM)
    refused = submit(jane, shown, description="mine", url="nope")
    put(stored, M, editableMlModelProperties={"description": "theirs"})
    again = fields(refused)
    assert jane.post(at(M), {**again, "url": ""}).status == 409
    put(stored, M, editableMlModelProperties={"description": "mine"})
    assert jane.post(at(M), {**again, "url": ""}).status == 303


def test_a_deprecation_is_changed_in_the_version_that_was_shown(
    stored: Store, jane: Browser
) -> None:
    old = {"deprecated": True, "note": "old", "actor": JANE, "decommissionTime": 5}
    put(stored, M, deprecation=old)
    shown = jane.get(FORM)
    saved(jane, note="older")
    assert value(stored, "deprecation") == {**old, "note": "older"}
    refused = submit(jane, shown, note="mine")
    assert (refused.status, fields(refused)["note"]) == (409, "mine")
    assert re.search(r"<blockquote[^>]*>Deprecated: older</blockquote>", refused.text)
    form = fields(refused)
    del form["deprecated"]
    assert jane.post(at(M), form).status == 303
    assert value(stored, "deprecation") == {"deprecated": False, "note": "mine", "actor": JANE}


@pytest.mark.parametrize("theirs", [True, False])
def test_a_conflict_shows_the_deprecation_of_others_and_does_not_undo_it(
    stored: Store, jane: Browser, *, theirs: bool
) -> None:
    put(stored, M, deprecation={"deprecated": not theirs, "note": "", "actor": JANE})
    shown = jane.get(FORM)
    put(stored, M, deprecation={
        "deprecated": theirs, "note": "", "actor": JANE, "decommissionTime": 5})  # fmt: skip
    refused = submit(jane, shown, note="mine")
    assert refused.status == 409
    state = "Deprecated" if theirs else "Not deprecated"
    assert re.search(rf"<blockquote[^>]*>{state}</blockquote>", refused.text)
    assert submit(jane, refused).status == 303
    kept = {"decommissionTime": 5} if theirs else {}
    assert value(stored, "deprecation") == {
        "deprecated": theirs, "note": "mine", "actor": JANE, **kept}  # fmt: skip


USE = {"primaryUses": ["rank  leads", "b"], "primaryUsers": ["HOBBY"]}
RISKS = {"risksAndHarms": ["bias"], "mitigations": ["a person decides"]}


def test_texts_of_a_card_are_written_where_they_are_missing(stored: Store, jane: Browser) -> None:
    card = jane.get(at(M, "?tab=card")).text
    for field in ("primaryUses", "mitigations", "performanceMeasures", "owners"):
        assert f'<a href="{at(M, "?edit=1")}#{field}">' in card
        assert f'id="{field}"' in jane.get(FORM).text
    saved(
        jane,
        primaryUses="Rank leads\r\n\r\n decide  alone ",
        primaryUsers="hobby",
        recommendations="# Look\r\nagain",
        caveats="few",
        relevantFactors="age\r\nage",
        performanceMeasures="recall\r\nauc: costs of both errors are equal",
    )
    measures = ["recall", "auc: costs of both errors are equal"]
    assert value(stored, "mlModelMetrics") == {"performanceMeasures": measures}
    assert value(stored, "intendedUse") == {
        "primaryUses": ["Rank leads", "decide alone"], "primaryUsers": ["HOBBY"]}  # fmt: skip
    caveats = {"recommendations": "# Look\nagain", "caveats": {"caveatDescription": "few"}}
    assert value(stored, "mlModelCaveatsAndRecommendations") == caveats
    assert value(stored, "mlModelFactorPrompts") == {"relevantFactors": [{"groups": ["age"]}]}
    assert value(stored, "mlModelEthicalConsiderations") is None
    card = jane.get(at(M, "?tab=card")).text
    assert "intendedUse.primaryUses, version 1" in re.sub(r"</?bdi>", "", card)
    assert f'<a href="{at(M, "?edit=1")}#primaryUses">' not in card
    assert "user jane" in card


def test_what_a_card_says_beside_the_changed_texts_stays(stored: Store, jane: Browser) -> None:
    factors = {"relevantFactors": [{"groups": ["a"], "instrumentation": ["x"]}, {"groups": ["b"]}]}
    caveats = {"caveats": {"caveatDescription": "old", "groupsNotRepresented": ["c"]}}
    put(stored, M, intendedUse=USE, mlModelFactorPrompts=factors,
        mlModelCaveatsAndRecommendations=caveats)  # fmt: skip
    before = stored.get_many([M])
    saved(jane)
    assert stored.get_many([M]) == before
    saved(jane, primaryUses="rank leads\r\nc", relevantFactors="d", caveats="")
    assert value(stored, "intendedUse") == {**USE, "primaryUses": ["rank  leads", "c"]}
    assert value(stored, "mlModelFactorPrompts") == {
        "relevantFactors": [{"groups": ["d"], "instrumentation": ["x"]}]}  # fmt: skip
    left = {"caveats": {"groupsNotRepresented": ["c"]}}
    assert value(stored, "mlModelCaveatsAndRecommendations") == left
    saved(jane, primaryUses="", primaryUsers="", relevantFactors="")
    assert value(stored, "intendedUse") == {"primaryUses": [], "primaryUsers": []}


def test_a_conflict_in_a_card_keeps_what_others_wrote_beside_it(
    stored: Store, jane: Browser
) -> None:
    put(stored, M, mlModelEthicalConsiderations=RISKS)
    shown = jane.get(FORM)
    theirs = {"risksAndHarms": ["worse"], "mitigations": ["two persons decide"]}
    put(stored, M, mlModelEthicalConsiderations=theirs)
    refused = submit(jane, shown, risksAndHarms="mine")
    assert refused.status == 409
    assert "Mitigation: two persons decide" in refused.text
    assert "<details open>" in refused.text
    assert submit(jane, refused).status == 303
    written = {"risksAndHarms": ["mine"], "mitigations": ["two persons decide"]}
    assert value(stored, "mlModelEthicalConsiderations") == written


def test_users_of_another_kind_are_refused(stored: Store, jane: Browser) -> None:
    assert "none is HOBBY ENTERPRISE" in submit(jane, None, primaryUsers="HOBBY ENTERPRISE").text
    refused = submit(jane, None, primaryUsers="HOBBY\r\nbanks", primaryUses="x")
    assert refused.status == 400
    assert "Users are ENTERPRISE, HOBBY, ENTERTAINMENT: none is banks." in refused.text
    assert value(stored, "intendedUse") is None


def test_what_was_made_anew_is_not_overwritten_by_the_form_of_the_former(
    stored: Store, jane: Browser, app: Starlette
) -> None:
    put(stored, M, editableMlModelProperties={"description": "former"})
    shown = jane.get(FORM)
    headers = {"authorization": f"Bearer {TOKEN}"}
    body = json.dumps({"urn": M}).encode()
    assert call(app, "POST", "/entities?action=delete", body, headers).status == 200
    put(stored, M, editableMlModelProperties={"description": "theirs"})
    assert stored.get_many([M])[M]["editableMlModelProperties"].version == 1
    refused = submit(jane, shown, description="mine")
    assert refused.status == 409
    assert value(stored, "editableMlModelProperties") == {"description": "theirs"}
    assert submit(jane, refused).status == 303
    assert value(stored, "editableMlModelProperties") == {"description": "mine"}


def test_a_text_without_its_version_is_not_dropped(stored: Store, app: Starlette) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "accept": HTML}
    for typed in (b"description=x", b"note=x", b"deprecated=on"):
        assert call(app, "POST", at(M), b"edit=1&" + typed, headers).status == 409
    assert value(stored, "editableMlModelProperties") is None
    assert value(stored, "deprecation") is None


def test_a_tag_is_added_by_its_name_in_any_case(stored: Store, jane: Browser) -> None:
    for urn, name in (("u1", "PII"), ("u2", "pii"), ("u3", "Gold"), ("x", "Other")):
        put(stored, f"urn:li:tag:{urn}", tagProperties={"name": name})
    new = {"urn:li:tag:zz": "zz", "urn:li:tag:ready %28prod%29": "ready (prod)"}
    typed = ("PII", "pii", "GOLD", "x", "urn:li:tag:zz", "urn:li:tag:u3", "ready (prod)")
    for text in (*typed, "Ready (Prod)"):
        saved(jane, tag=text)
    tags = [entry["tag"] for entry in value(stored, "globalTags")["tags"]]
    assert tags == [*(f"urn:li:tag:{name}" for name in ("u1", "u2", "u3", "x")), *new]
    made = stored.get_many([*new])
    assert [made[urn]["tagProperties"].value["name"] for urn in new] == [*new.values()]


@pytest.mark.parametrize(
    ("typed", "field", "says"),
    [
        ({"url": "javascript:alert(1)"}, "url", "begins with http:// or https://"),
        ({"label": "only a label"}, "url", "begins with http:// or https://"),
        ({"owner": "urn:li:tag:a"}, "owner", "Expected a corp user urn"),
        ({"owner": "urn:li:x"}, "owner", "is not a URN"),
        ({"owner": "jane", "owner_type": "KING"}, "owner", "KING"),
        ({"tag": "x" * 600}, "tag", "bytes"),
        ({"tag": "urn:li:corpuser:zz"}, "tag", "urn:li:corpuser:zz is the URN of no tag."),
        ({"remove": ["nope"]}, "form", "The form is damaged"),
        ({"remove": ['["tags"]']}, "form", "The form is damaged"),
        ({"remove": ['{"tags":1}']}, "form", "The form is damaged"),
        ({"remove": ["7"]}, "form", "The form is damaged"),
        ({"description_version": "9" * 30, "description": "x"}, "description", "Another user"),
        ({"description_version": "x", "description": "x"}, "description", "Another user"),
    ],
)
def test_a_wrong_field_has_its_problem_beside_it_and_nothing_is_saved(
    stored: Store, jane: Browser, typed: dict[str, Any], field: str, says: str
) -> None:
    before = stored.get_many([M])
    refused = submit(jane, None, **{"note": "kept", **typed})
    assert refused.status == (409 if "Another" in says else 400)
    place = rf'id="{field}-problem">[^<]*' if field != "form" else r'role="alert">[^<]*'
    assert re.search(place + re.escape(says), unescape(refused.text)), refused.text
    assert fields(refused)["note"] == "kept"
    assert stored.get_many([M]) == before


def test_a_reading_session_gets_no_form_and_is_refused(app: Starlette, stored: Store) -> None:
    reader = Browser(app)
    reader.sign_in(READ_TOKEN)
    shown = reader.get(FORM)
    assert "edit=1" not in shown.text
    assert "<textarea" not in shown.text
    answer = reader.post(at(M), {**form_of(shown), "edit": "1", "tag": "x"})
    assert answer.status == 403
    assert value(stored, "globalTags") is None


def test_the_form_is_bound_to_its_session(app: Starlette, jane: Browser, stored: Store) -> None:
    other = Browser(app)
    other.sign_in(TOKEN)
    shown = fields(other.get(FORM))
    for csrf in ("", "x", "é", shown["csrf"]):
        assert jane.post(at(M), {**shown, "csrf": csrf, "tag": "x"}).status == 403
    assert value(stored, "globalTags") is None
    jane.cookies.clear()
    ended = jane.post(at(M), {**shown, "tag": "x"})
    assert ended.status == 401
    assert "The session ended (sign in in another tab, then reload this page" in ended.text


@pytest.mark.parametrize("token", [TOKEN, None])
def test_what_was_typed_outlives_its_session(stored: Store, token: str | None) -> None:
    own = {"origin": "http://127.0.0.1:7001"}
    typed = {"description": "<long> text", "tag": "gold", "deprecated": "on"}
    former, now = (Browser(create_app(stored, token=token)) for _ in "ab")
    for browser in (former, now) if token else ():
        browser.sign_in(TOKEN)
    sent = {**fields(former.get(FORM)), **typed}
    for origin in ({}, {"origin": "http://127.0.0.1:9090"}):
        refused = now.post(at(M), sent, **origin)
        assert (refused.status, "<textarea" in refused.text) == (403, False)
    shown = now.post(at(M), sent, **own)
    assert shown.status == 403
    assert "Nothing was saved yet. The form belonged to another session." in shown.text
    assert typed.items() <= fields(shown).items()
    assert value(stored, "editableMlModelProperties") is value(stored, "globalTags") is None
    assert now.post(at(M), fields(shown), **own).status == 303
    assert value(stored, "editableMlModelProperties") == {"description": "<long> text"}


def test_without_a_token_other_sites_cannot_edit(stored: Store) -> None:
    app = create_app(stored)
    browser = Browser(app)
    shown = fields(browser.get(FORM))
    for origin in ("https://evil.example", "null"):
        assert browser.post(at(M), {**shown, "tag": "x"}, origin=origin).status == 403
    assert browser.post(at(M), {**shown, "csrf": "x", "tag": "x"}).status == 403
    assert value(stored, "globalTags") is None
    assert browser.post(at(M), {**shown, "tag": "x"}).status == 303
    assert stored.get_many([M])[M]["globalTags"].modified_by == UNKNOWN_ACTOR


def test_a_writing_token_needs_no_session(app: Starlette, stored: Store) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "accept": HTML}
    assert call(app, "POST", at(M), b"edit=1&tag=x", headers).status == 303
    assert value(stored, "globalTags") == {"tags": [{"tag": "urn:li:tag:x"}]}


def test_what_cannot_be_edited_has_no_form(stored: Store, jane: Browser) -> None:
    put(stored, "urn:li:dataHubExecutionRequest:r", dataHubExecutionRequestInput={"task": "x"})
    put(
        stored,
        M,
        mlModelProperties={"groups": ["urn:li:mlModelGroup:(urn:li:dataPlatform:x,g,PROD)"]},
    )
    referenced = "urn:li:mlModelGroup:(urn:li:dataPlatform:x,g,PROD)"
    for urn in ("urn:li:dataHubExecutionRequest:r", referenced):
        assert "edit=1" not in jane.get(at(urn)).text
        shown = jane.get(at(urn, "?edit=1"))
        assert "<textarea" not in shown.text
        answer = jane.post(at(urn), {**fields(jane.get(FORM)), "tag": "x"})
        assert answer.status == 404


def test_behind_a_proxy_the_way_back_has_its_prefix(jane: Browser) -> None:
    shown = fields(jane.get(FORM))
    answer = jane.post(at(M), shown, **{"x-forwarded-prefix": "/catalog"})
    assert answer.headers["location"] == f"/catalog{at(M)}"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("x" * 600, "The name cannot be used"),
        (" __datahub_system ", "The catalog itself has this name"),
        (" unknown ", "The catalog itself has this name"),
    ],
)
def test_nobody_signs_in_with_a_name_of_no_user_or_of_the_system(
    app: Starlette, name: str, says: str
) -> None:
    browser = Browser(app)
    answer = browser.sign_in(TOKEN, name=name)
    assert answer.status == 400
    assert says in answer.text
    assert browser.get(at(M)).status == 303
    assert browser.sign_in(TOKEN).status == 303


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_only_text(stored: Store, jane: Browser, text: str) -> None:
    stamp = {"time": 1, "actor": JANE}
    put(stored, M, editableMlModelProperties={"description": text},
        deprecation={"deprecated": True, "note": text, "actor": JANE},
        institutionalMemory={"elements": [
            {"url": text, "description": text, "createStamp": stamp}]})  # fmt: skip
    shown = jane.get(FORM)
    before = stored.get_many([M])
    assert submit(jane, shown).status == 303
    assert stored.get_many([M]) == before
    (key,) = removals(shown)
    assert json.loads(key) == ["links", text, text]
    assert submit(jane, shown, remove=[key]).status == 303
    assert value(stored, "institutionalMemory") == {"elements": []}
