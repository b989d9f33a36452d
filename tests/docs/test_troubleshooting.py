"""`troubleshooting.md`: each message that it quotes is one of the package; many are provoked."""

import json
import re
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from pathlib import Path

import pytest

from docs.list_messages import texts
from mlcat_ingest.catalog.server.lock import ServerLock
from mlcat_ingest.cli.main import call
from mlcat_ingest.hooks.listener import SingleWarning, enable
from mlcat_ingest.sql.filelock import FileLock
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support.catalog_server import running_catalog
from support.certificates import make_certificate
from support.ports import free_port
from support.small_store import SmallStore, make

pytestmark = pytest.mark.process

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "troubleshooting.md").read_text()
MESSAGES: list[str] = re.findall(r"(?m)^\| `([^`]+)` \|", PAGE)


@cache
def messages_of_the_package() -> tuple[str, ...]:
    return tuple(" ".join(text.text.split()) for text in texts())


def contains(text: str, quoted: str) -> bool:
    """Return whether a text has the parts of a quoted message, in their order."""
    parts = ".*".join(re.escape(part.strip()) for part in quoted.split("…"))
    return re.search(parts, text, re.DOTALL) is not None


@pytest.mark.parametrize("quoted", MESSAGES)
def test_a_quoted_message_is_one_of_the_package(quoted: str) -> None:
    assert any(contains(message, quoted) for message in messages_of_the_package())


def test_a_text_without_the_message_does_not_contain_it() -> None:
    assert contains("the file /a/b is empty (fill it)", "the file … is empty")
    assert not contains("the folder /a/b is empty", "the file … is empty")
    assert not contains("is empty: the file", "the file … is empty")


@dataclass(frozen=True)
class World:
    """A store of MLflow with two runs, a catalog, and recipes from the one to the other."""

    store: SmallStore
    monkeypatch: pytest.MonkeyPatch

    @property
    def folder(self) -> Path:
        return self.store.folder

    def run(self, text: str, *args: str) -> None:
        """Run a recipe of this text."""
        (self.folder / "recipe.yml").write_text(text)
        call([str(self.folder / "recipe.yml"), "--no-input", *args])

    def run_with(self, sink: Mapping[str, object], *, more: str = "") -> None:
        source = f"source: {{type: mlflow, config: {{tracking_uri: '{self.tracking_uri}'}}}}\n"
        self.run(f"{source}sink: {json.dumps(sink)}\n{more}")

    def run_to(self, server: str) -> None:
        config: dict[str, object] = {"server": server, "retries": 0, "timeout_s": 20}
        self.run_with({"type": "rest", "config": config})

    def run_from(self, server: str) -> None:
        config = f"{{tracking_uri: '{server}', retries: 0, timeout_s: 20}}"
        sink = f"{{type: rest, config: {{server: '{self.store.server}'}}}}"
        self.run(f"source: {{type: mlflow, config: {config}}}\nsink: {sink}\n")

    def ingest(self, more: str = "") -> int:
        return call([self.store.recipe(more=more)])

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.store.mlflow}"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("MLCAT_TOKEN", "MLCAT_SERVER", "DATAHUB_GMS_TOKEN", "MLCAT_RECIPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with running_catalog(tmp_path / "served.db") as catalog:
        yield World(make(tmp_path, catalog.url), monkeypatch)


def without_extra(world: World) -> None:
    world.monkeypatch.setitem(
        sys.modules["mlcat_ingest.core.extras"].MODULES, "feast", ("no.such.module",)
    )
    world.run("source: {type: feast, config: {registry: registry.db}}\n" + SINK)


def on_windows(world: World) -> None:
    world.monkeypatch.setattr(sys, "platform", "win32")
    call(["recipe.yml"])


def of_a_newer_version(world: World) -> None:
    world.ingest()
    state = world.folder / ".mlcat" / "state.db"
    with closing(sqlite3.connect(state)) as connection, connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE sql LIKE '%applied_at_ms%'"
        ).fetchall()
        ((table,),) = tables
        connection.execute(
            f"INSERT INTO {table} SELECT component, 1000, 'of the future', 0 FROM {table} LIMIT 1"
        )
    world.ingest()


def answering(world: World, answer: ServiceAnswer) -> None:
    with failing_service([answer]) as service:
        world.run_to(service.url)


def mlflow_answering(world: World, answer: ServiceAnswer) -> None:
    with failing_service([answer]) as service:
        world.run_from(service.url)


def redirected(world: World) -> None:
    with failing_service(lambda one: CONFIG if one.method == "GET" else ELSEWHERE) as service:
        world.run_to(service.url)


def with_tls(world: World, scheme: str) -> None:
    pem = make_certificate(world.folder / "tls")
    with failing_service([ServiceAnswer()], certificate=pem) as service:
        world.run_to(f"{scheme}://127.0.0.1:{service.port}")


def without_tls(world: World) -> None:
    with failing_service([ServiceAnswer()]) as service:
        world.run_to(service.url.replace("http", "https"))


def through_a_proxy(world: World) -> None:
    world.monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    world.monkeypatch.setenv("NO_PROXY", "localhost")
    world.run_to("http://datahub.example.com")


def with_a_line_break(world: World) -> None:
    world.monkeypatch.setenv("MLCAT_TOKEN", "a\nb")
    world.run_to("http://127.0.0.1:1")


def without_a_token(world: World) -> None:
    with running_catalog(world.folder / "other.db", token="a") as catalog:
        world.run_to(catalog.url)


def after_a_change(world: World, option: str) -> None:
    """Ingest, set an option of the source, and ingest again."""
    world.ingest()
    recipe = Path(world.store.recipe())
    recipe.write_text(recipe.read_text().replace("{tracking_uri", f"{{{option}, tracking_uri"))
    call([str(recipe)])


def without_a_terminal(world: World) -> None:
    world.ingest()
    world.monkeypatch.setattr(sys, "stdin", StringIO())
    call(["retract", world.store.recipe()])


def while_another_run_holds_the_lock(world: World) -> None:
    world.ingest()
    (path,) = (world.folder / ".mlcat").glob("*.lock")
    lock = FileLock.take(path, {"pid": 1})
    assert lock is not None
    try:
        world.ingest()
    finally:
        lock.release()


def with_a_damaged_state(world: World) -> None:
    folder = world.folder / ".mlcat"
    folder.mkdir()
    (folder / "state.db").write_bytes(b"no database" * 1_000)
    world.ingest()


def removing_most(world: World) -> None:
    for number in range(20):
        world.store.add_run(f"more{number}")
    world.ingest()
    world.store.change("DELETE FROM params")
    world.store.change("DELETE FROM runs WHERE run_uuid LIKE 'more%'")
    call([world.store.recipe(), "--full"])


def while_the_catalog_is_served(world: World) -> None:
    with closing(ServerLock.acquire(world.store.catalog)):
        call(["catalog", "serve", "--db", str(world.store.catalog)])


def on_a_port_in_use(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        call(["catalog", "serve", "--db", str(world.store.catalog), "--port", port])


def everywhere_without_a_token(world: World) -> None:
    call(["catalog", "serve", "--db", str(world.store.catalog), "--host", "0.0.0.0"])  # noqa: S104


def a_hook_without_a_catalog(world: World) -> None:
    world.monkeypatch.setattr(sys.modules["mlcat_ingest.hooks.listener"], "warn", SingleWarning())
    assert not enable()


PAGE_OF_A_LOGIN = ServiceAnswer(body=b"<html>", headers={"Content-Type": "text/html"})
ELSEWHERE = ServiceAnswer(302, headers={"Location": "/login"})
CONFIG = ServiceAnswer(body=b'{"noCode": "true"}')
SINK = "sink: {type: file, config: {path: proposals.jsonl}}\n"

PROVOKED: dict[str, Callable[[World], object]] = {
    "mlcat-ingest runs on": on_windows,
    "needs the optional packages": without_extra,
    "made by a newer version": of_a_newer_version,
    "is not a known key": lambda world: world.run("source: {type: mlflow, confg: {}}\n" + SINK),
    "not valid YAML": lambda world: world.run("source: {type: ${TYPE}}\n"),
    "the variable": lambda world: world.run('source: {type: "${UNSET}"}\n' + SINK),
    "the file of": lambda world: world.run('source: {type: "${file:none}"}\n' + SINK),
    "no recipe at": lambda _: call(["none.yml"]),
    "has no sink": lambda world: world.run("source: {type: mlflow}\n"),
    "must be text": lambda world: world.run("name: 5\nsource: {type: mlflow}\n" + SINK),
    "confirmation required": without_a_terminal,
    "does not answer": lambda world: world.run_to(f"http://127.0.0.1:{free_port()}"),
    "through the proxy": through_a_proxy,
    "does not speak https": without_tls,
    "does not speak http`": partial(with_tls, scheme="http"),
    "PEM file of the authority": partial(with_tls, scheme="https"),
    "redirects to": redirected,
    "a web page instead of JSON": partial(answering, answer=PAGE_OF_A_LOGIN),
    "something that is not JSON": partial(answering, answer=ServiceAnswer(body=b"hello")),
    "has no such endpoint": partial(answering, answer=ServiceAnswer(404)),
    "is not a catalog service": partial(answering, answer=ServiceAnswer()),
    "no MLflow server at": partial(mlflow_answering, answer=ServiceAnswer(404, body=b"no")),
    "(429)": partial(answering, answer=ServiceAnswer(429, headers={"Retry-After": "0"})),
    "(401)": partial(answering, answer=ServiceAnswer(401)),
    "no token was given": without_a_token,
    "characters that HTTP": with_a_line_break,
    "the token … permission": partial(answering, answer=ServiceAnswer(403)),
    "denied the listing": partial(mlflow_answering, answer=ServiceAnswer(403)),
    "does not exist": lambda world: world.run(
        "source: {type: mlflow, config: {tracking_uri: 'sqlite:///none.db'}}\n" + SINK
    ),
    "under new URNs": partial(after_a_change, option="instance: eu"),
    "was written from another": partial(after_a_change, option="server_id: other"),
    "another run of": while_another_run_holds_the_lock,
    "is damaged": with_a_damaged_state,
    "max_removed_ratio": removing_most,
    "more than … would be": lambda world: world.ingest("limits: {max_new_entities: 1}\n"),
    "another catalog": while_the_catalog_is_served,
    "without a token": everywhere_without_a_token,
    "port …": on_a_port_in_use,
    "no catalog configured": a_hook_without_a_catalog,
}
"""A part of each message that is provoked, and what provokes it."""


def quoted_with(part: str) -> str:
    (quoted,) = (one for one in MESSAGES if part in f"{one}`")
    return quoted


@pytest.mark.parametrize("part", PROVOKED)
def test_a_quoted_message_is_what_a_user_sees(
    part: str, world: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    PROVOKED[part](world)
    printed = capsys.readouterr()
    assert contains(printed.out + printed.err + caplog.text, quoted_with(part))
