"""The sign-in of browsers: sessions, CSRF tokens, and the limits of a session."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from starlette.applications import Starlette

from mlcat_ingest.catalog.limits import SESSION_SECONDS, SESSIONS, WRONG_TOKENS
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.auth import Sessions
from mlcat_ingest.catalog.web.ui.sign_in import _local_path
from support.asgi import call
from support.catalog_store import model, open_store, put
from support.pages import Browser, Reader, form_of

TOKEN = "write-tök-en"
READ_TOKEN = "read-token"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Starlette]:
    with closing(open_store(tmp_path / "c.db")) as store:
        put(store, model("m"), mlModelProperties={"name": "bold-hare"})
        served = create_app(store, token=TOKEN, read_token=READ_TOKEN)
        yield served
        served.state.tasks.close()


@pytest.fixture
def browser(app: Starlette) -> Browser:
    return Browser(app)


# --- the way in and out --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "encoded"),
    [
        ("/", "%2F"),
        ("/search?q=a%20b&type=x", "%2Fsearch%3Fq%3Da%2520b%26type%3Dx"),
        ("/entity/urn%3Ali%3Atag%3Ax", "%2Fentity%2Furn%253Ali%253Atag%253Ax"),
        ("/nope", "%2Fnope"),
    ],
)
def test_a_browser_without_a_session_is_sent_to_the_sign_in_and_back(
    browser: Browser, target: str, encoded: str
) -> None:
    answer = browser.get(target)
    assert answer.status == 303
    assert answer.headers["location"] == f"/login?next={encoded}"
    page = browser.get(answer.headers["location"])
    assert page.status == 200
    assert "<h1>Sign in</h1>" in page.text
    back = browser.post("/login", {**form_of(page), "token": TOKEN})
    assert (back.status, back.headers["location"]) == (303, target)
    assert browser.get(target).status in {200, 404}


@pytest.mark.parametrize("token", [TOKEN, f" {READ_TOKEN} "])
def test_both_tokens_sign_in_and_the_cookie_is_no_token(browser: Browser, token: str) -> None:
    assert browser.sign_in(token).status == 303
    (session,) = [line for line in browser.set_cookies if line.startswith("mlcat_session=")]
    assert re.search("; HttpOnly; Max-Age=43200; Path=/; SameSite=strict$", session)
    assert browser.cookies.keys() == {"mlcat_session"}
    assert token.strip() not in session
    home = browser.get("/")
    assert "Catalog contents" in home.text
    assert home.headers["cache-control"] == "no-store"


def test_the_cookie_is_secure_where_the_request_came_over_https(app: Starlette) -> None:
    browser = Browser(app)
    fields = form_of(browser.get("/login"))
    answer = call(
        app, "POST", "/login", urlencode({**fields, "token": TOKEN}).encode(),
        {"cookie": f"mlcat_sign_in={browser.cookies['mlcat_sign_in']}"}, scheme="https",
    )  # fmt: skip
    assert answer.status == 303
    assert all("; Secure" in line for line in answer.set_cookies)


@pytest.mark.parametrize(
    "token", ["", "wrong", TOKEN[:-1], TOKEN + "x", READ_TOKEN[:-1], READ_TOKEN + "x", "\ud83d"]
)
def test_a_wrong_token_leads_to_the_form_again(browser: Browser, token: str) -> None:
    fields = form_of(browser.get("/login?next=/search"))
    answer = browser.post("/login", {**fields, "token": token.encode("utf-8", "replace").decode()})
    assert answer.status == 401
    assert "Wrong token." in answer.text
    assert form_of(answer) == fields
    assert "mlcat_session" not in browser.cookies
    assert browser.get("/").status == 303


def test_signing_out_ends_the_session(browser: Browser) -> None:
    browser.sign_in(TOKEN)
    stolen = dict(browser.cookies)
    answer = browser.post("/logout", form_of(browser.get("/search")))
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert browser.cookies == {}
    browser.cookies = stolen
    assert browser.get("/").status == 303
    assert browser.post("/logout", {}).headers["location"] == "/login"


def test_a_browser_with_a_session_is_redirected(browser: Browser) -> None:
    browser.sign_in(TOKEN)
    answer = browser.get("/login?next=/search")
    assert (answer.status, answer.headers["location"]) == (303, "/search")


def test_a_link_on_another_site_goes_through_a_page_of_this_one(browser: Browser) -> None:
    browser.sign_in(TOKEN)
    session, browser.cookies = browser.cookies, {}  # strict cookies do not come along
    page = browser.get("/login?next=/search?q=a%26b", **{"sec-fetch-site": "cross-site"})
    assert '<meta http-equiv="refresh" content="0; url=/search?q=a&amp;b">' in page.text
    browser.cookies = session
    assert browser.get("/search?q=a&b").status == 200


def test_a_form_holds_for_an_hour(browser: Browser) -> None:
    browser.get("/login")
    [cookie] = browser.set_cookies
    assert re.search("; HttpOnly; Max-Age=3600; Path=/; SameSite=strict$", cookie)


@pytest.mark.parametrize(("fields", "status"), [(10, 303), (11, 400)])
def test_a_form_of_more_fields_than_the_limit_is_refused(
    browser: Browser, fields: int, status: int
) -> None:
    form = {**form_of(browser.get("/login")), "token": TOKEN}
    more = {f"field{number}": "x" for number in range(fields - len(form))}
    assert browser.post("/login", {**form, **more}).status == status


@pytest.mark.parametrize(("form_bytes", "status"), [(20_000, 303), (20_001, 413)])
def test_a_form_longer_than_the_limit_is_refused(
    browser: Browser, form_bytes: int, status: int
) -> None:
    form = {**form_of(browser.get("/login")), "token": TOKEN, "field": ""}
    form["field"] = "x" * (form_bytes - len(urlencode(form)))
    assert browser.post("/login", form).status == status


# --- forgery -------------------------------------------------------------------------------------


def test_the_sign_in_form_is_bound_to_the_browser(app: Starlette) -> None:
    theirs = form_of(Browser(app).get("/login"))
    victim = Browser(app)
    mine = form_of(victim.get("/login"))
    for csrf in ("", "x", "é", theirs["csrf"], mine["csrf"][:-1]):
        answer = victim.post("/login", {"token": TOKEN, "csrf": csrf})
        assert answer.status == 403
        assert "The form has expired" in answer.text
        assert "mlcat_session" not in victim.cookies
    victim.cookies = {}
    assert victim.post("/login", {**mine, "token": TOKEN}).status == 403


def test_the_sign_out_form_is_bound_to_the_session(app: Starlette) -> None:
    browser, other = Browser(app), Browser(app)
    browser.sign_in(TOKEN)
    other.sign_in(TOKEN)
    for fields in ({}, {"csrf": "x"}, form_of(other.get("/"))):
        answer = browser.post("/logout", fields)
        assert answer.status == 403
        assert answer.headers["content-type"].startswith("text/html")
    assert browser.get("/").status == 200


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "\n/x",
        "/\r\nSet-Cookie: x", "evil", "", "/login?next=/", "/logout", "javascript:alert(1)",
    ],
)  # fmt: skip
def test_only_local_pages_follow_a_sign_in(browser: Browser, target: str) -> None:
    assert _local_path(target) == "/"
    assert browser.sign_in(TOKEN, target).headers["location"] == "/"


@pytest.mark.parametrize("target", ["/", "/search?q=//x", "/entity/a%2Fb?tab=x", "/é"])
def test_local_pages_do(target: str) -> None:
    assert _local_path(target) == target


# --- the limits of a session ---------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/aspects?action=ingestProposal"),
        ("POST", "/api/graphql"),
        ("POST", "/openapi/v3/entity/tag"),
        ("POST", "/operations?action=getEsTaskStatus"),
        ("GET", "/entitiesV2/urn:li:tag:x"),
        ("GET", "/openapi/v3/entity/tag"),
        ("GET", "/openapi.json"),
    ],
)
def test_a_session_opens_the_pages_only(
    browser: Browser, method: str, path: str, prefix: str
) -> None:
    browser.sign_in(TOKEN)
    send = browser.get if method == "GET" else lambda target: browser.post(target, {})
    answer = send(prefix + path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert browser.get("/metrics").status == 401


def test_a_session_writes_nothing_through_the_pages(browser: Browser) -> None:
    browser.sign_in(TOKEN)
    for target in ("/", "/search", "/search/suggest", "/kind/mlModel", "/static/style.css"):
        assert browser.post(target, {}).status in {401, 405}


def test_suggestions_and_raw_json_need_the_session(browser: Browser) -> None:
    for target in ("/search/suggest?q=bold", "/entity/urn:li:tag:x?format=json"):
        assert browser.get(target, accept="*/*").status == 401
    browser.sign_in(READ_TOKEN)
    assert browser.get("/search/suggest?q=bold", accept="*/*").json()[0]["name"] == "bold-hare"


def test_the_password_of_a_proxy_is_no_token(browser: Browser) -> None:
    password = {"authorization": "Basic amFuZTpwdw=="}
    assert browser.get("/", **password).status == 303
    browser.sign_in(TOKEN)
    assert browser.get("/", **password).status == 200
    assert browser.get("/openapi.json", **password).status == 401


def test_programs_get_no_redirect(app: Starlette) -> None:
    for accept in ("*/*", "application/json"):
        answer = call(app, "GET", "/", headers={"accept": accept})
        assert answer.status == 401
        assert answer.json()["message"] == "Unauthorized to perform this action."
    right = {"authorization": f"Bearer {READ_TOKEN}"}
    page = call(app, "GET", "/", headers=right)
    assert page.status == 200
    assert "Sign out" not in page.text


def test_the_sign_in_page_and_its_style_are_open(browser: Browser) -> None:
    page = browser.get("/login")
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'self'; form-action")
    (style,) = re.findall(r'href="(/static/style[^"]+)"', page.text)
    assert browser.get(style).status == 200
    assert browser.get("/static/other").status == 303


def test_without_a_token_there_is_no_sign_in(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "c.db")) as store:
        browser = Browser(create_app(store))
        assert browser.get("/login").status == 404
        assert "Sign out" not in browser.get("/").text


# --- guessing ------------------------------------------------------------------------------------


def test_an_address_that_guesses_only_gets_in_with_a_right_token(
    browser: Browser, app: Starlette
) -> None:
    fields = form_of(browser.get("/login"))
    for number in range(WRONG_TOKENS):
        assert browser.post("/login", {**fields, "token": f"guess{number}"}).status == 401
    answer = browser.post("/login", {**fields, "token": "one more"})
    assert answer.status == 429
    assert 50 <= int(answer.headers["retry-after"]) <= 60
    assert "Too many wrong tokens; try again in" in answer.text
    wrong = {"authorization": "Bearer another"}
    for headers in (wrong, {**wrong, "x-forwarded-for": "192.0.2.9"}):
        interface = call(app, "GET", "/openapi.json", headers=headers)
        assert interface.status == 429
        assert interface.headers["retry-after"] == answer.headers["retry-after"]
    assert call(app, "GET", "/openapi.json", headers=wrong, client="192.0.2.9").status == 401
    right = {"authorization": b"Bearer write-t\xc3\xb6k-en".decode("latin-1")}
    assert call(app, "GET", "/openapi.json", headers=right).status == 200
    assert browser.post("/login", {**fields, "token": TOKEN}).status == 303


def test_the_same_wrong_token_is_one_guess(app: Starlette) -> None:
    for _ in range(3 * WRONG_TOKENS):
        answer = call(app, "GET", "/openapi.json", headers={"authorization": "Bearer stale"})
        assert answer.status == 401


# --- sessions ------------------------------------------------------------------------------------


def test_sessions_expire_and_are_bounded() -> None:
    now_s = 0.0
    sessions = Sessions(lambda: now_s)
    first = sessions.start()
    now_s = SESSION_SECONDS - 1
    assert sessions.find(first) is not None
    now_s = SESSION_SECONDS
    assert sessions.find(first) is None
    started = [sessions.start() for _ in range(SESSIONS + 1)]
    assert sessions.find(started[0]) is None
    assert sessions.find(started[1]) is not None
    assert sessions.find("") is None
    assert Sessions().find(started[1]) is None


# --- below a path of a proxy ---------------------------------------------------------------------


def below(browser: Browser, target: str) -> str:
    """Get a page as the proxy does, with every address in it, and hold these."""
    text = browser.get(target).text
    addresses = re.findall(r'(?:href="|action="|src="|url=)(/[^"]*)"', text)
    assert addresses
    assert all(one.startswith("/ml/catalog/") for one in addresses), addresses
    return text


def test_below_a_path_all_links_forms_and_files_have_it(app: Starlette) -> None:
    browser = Browser(app, **{"x-forwarded-prefix": "/ml/catalog/"})
    assert browser.get("/search?q=a").headers["location"].startswith("/ml/catalog/login?next=%2F")
    assert 'action="/ml/catalog/login"' in below(browser, "/login")
    assert browser.sign_in(TOKEN, "/search?q=a").headers["location"] == "/ml/catalog/search?q=a"
    for target in ("/", "/kind/mlModel", "/search?q=hare", "/tasks", "/compare", "/nope",
                   "/changes", f"/entity/{quote(model('m'), safe='')}"):  # fmt: skip
        text = below(browser, target)
        assert 'href="/ml/catalog/static/style.css?v=' in text
        assert 'src="/ml/catalog/static/search.js?v=' in text
        assert 'action="/ml/catalog/logout"' in text


def test_a_feed_is_for_who_may_see_the_pages(app: Starlette) -> None:
    browser = Browser(app, **{"x-forwarded-prefix": "/ml"})
    assert browser.get("/changes.atom", accept="application/atom+xml").status == 401
    assert browser.get("/changes.atom").headers["location"].startswith("/ml/login?next=")
    token = {"authorization": f"Bearer {READ_TOKEN}"}
    feed = browser.get("/changes.atom?kind=mlModel", accept="*/*", **token).text
    assert re.findall(r'href="http://[^/]*(/[^"]*)"', feed)[:2] == [
        "/ml/changes.atom?kind=mlModel",
        "/ml/changes?kind=mlModel",
    ]
    browser.sign_in(TOKEN)
    assert browser.get("/changes.atom").text.startswith("<?xml")
    assert 'href="/ml/changes.atom"' in browser.get("/changes").text


@pytest.mark.parametrize("prefix", ["//evil.example", "https://evil.example", '/a"b', "/a b", "/"])
def test_what_is_no_path_is_no_prefix(app: Starlette, prefix: str) -> None:
    browser = Browser(app, **{"x-forwarded-prefix": prefix})
    assert 'action="/login"' in browser.get("/login").text


def test_a_text_that_looks_like_a_link_stays_as_it_is(tmp_path: Path) -> None:
    text = 'an <a href="/x"> and `<a href="/y">`'
    with closing(open_store(tmp_path / "t.db")) as store:
        put(store, model("m"), mlModelProperties={"name": text, "description": text})
        served = create_app(store)
        target = f"/entity/{quote(model('m'), safe='')}"
        plain = call(served, "GET", target).text
        found = call(served, "GET", target, headers={"x-forwarded-prefix": "/c"}).text
        served.state.tasks.close()
    assert Reader(found).text == Reader(plain).text
