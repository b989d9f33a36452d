"""`catalog serve` and `catalog tests push`."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pytest

from mlcat_ingest.catalog.search.index import clear
from mlcat_ingest.catalog.server.lock import Running, ServerLock
from mlcat_ingest.catalog.store.store import Store, known_platforms
from mlcat_ingest.cli.catalog import _log_indexed
from mlcat_ingest.core.resources import Pace
from mlcat_ingest.errors import (
    AspectRejectedError,
)
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.recipe.secrets import SECRETS
from support.catalog_store import model, put
from support.cli import Invoke
from support.searching import search

TESTS = """\
- id: has-owner
  name: Has an owner
  category: governance
  description: ""
  definition:
    on: {types: [mlModel]}
    rules: {property: ownership.owners.owner, operator: exists}
- id: urn:li:test:named
  name: NO
  category: 12:30
  definition: '{"on": {"types": ["mlModel"]}, "rules": []}'
"""


# --- serve ---------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def serve(
        db: str,
        host: str,
        port: int,
        *,
        token: str | None,
        read_token: str | None,
        ready: Callable[[Running], None],
    ) -> None:
        calls.append((db, host, port, token, read_token))
        ready(Running(1, f"http://{host}:{port}"))
        if port == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("mlcat_ingest.catalog.server.serve.serve", serve)
    for variable in ("TOKEN", "TOKEN_FILE", "READ_TOKEN", "READ_TOKEN_FILE"):
        monkeypatch.delenv(f"MLCAT_CATALOG_{variable}", raising=False)
    return calls


def test_serving_says_where(invoke: Invoke, served: list[tuple[Any, ...]]) -> None:
    result = invoke("catalog", "serve")
    assert result.code == 0
    assert served == [("mlcat-catalog.db", "127.0.0.1", 8080, None, None)]
    assert result.out == "the catalog is at http://127.0.0.1:8080 (Ctrl-C stops it)\n"


def test_ctrl_c_ends_serving_cleanly(
    invoke: Invoke, served: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCAT_CATALOG_TOKEN", "s3cret-token")
    result = invoke("catalog", "serve", "--db", "x.db", "--host", "::1", "--port", "1")
    assert result.code == 0
    assert served == [("x.db", "::1", 1, "s3cret-token", None)]
    assert result.err == "stopped\n"
    assert SECRETS.mask("s3cret-token") == "***"


@pytest.mark.parametrize("by", ["option", "variable"])
def test_tokens_come_from_files_too(
    invoke: Invoke,
    served: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    by: str,
) -> None:
    options = []
    for name, token in (("token", "s3cret-token"), ("read-token", "s3cret-reader")):
        file = tmp_path / name
        file.write_text(f"{token}\n")
        variable = f"MLCAT_CATALOG_{name.upper().replace('-', '_')}_FILE"
        if by == "variable":
            monkeypatch.setenv(variable, str(file))
        else:
            options += [f"--{name}-file", str(file)]
    assert invoke("catalog", "serve", *options).code == 0
    assert served[0][3:] == ("s3cret-token", "s3cret-reader")
    assert SECRETS.mask("s3cret-token s3cret-reader") == "*** ***"


def test_a_token_file_that_cannot_be_used_is_an_error(
    invoke: Invoke, served: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    for content, problem in ((b" \n", "is empty"), (b"\xff", "it is not UTF-8"), (None, "No such")):
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        result = invoke("catalog", "serve", "--token-file", str(file))
        assert result.code == 2
        assert problem in result.err
    both = invoke("catalog", "serve", "--read-token", "x", "--read-token-file", str(file))
    assert both.code == 2
    assert "--read-token and --read-token-file" in both.err
    assert served == []


# --- tests push ----------------------------------------------------------------------------------


class Service:
    """A client that keeps what is written, and refuses what the test says."""

    def __init__(self) -> None:
        self.written: list[Proposal] = []
        self.refuse: set[str] = set()

    def write(self, proposals: Sequence[Proposal]) -> list[AspectRejectedError]:
        self.written.extend(proposals)
        return [
            AspectRejectedError(urn=urn, aspect="testInfo", status=422, reason="no")
            for urn in sorted(self.refuse)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()
    monkeypatch.setattr("mlcat_ingest.cli.catalog.connect", lambda *_: made)
    return made


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "tests.yml"
    file.write_text(text)
    return file


def test_tests_are_written(invoke: Invoke, service: Service, tmp_path: Path) -> None:
    result = invoke("catalog", "tests", "push", str(written(tmp_path, TESTS)))
    assert result.code == 0
    assert result.out.splitlines() == [
        "wrote urn:li:test:has-owner: Has an owner",
        "wrote urn:li:test:named: NO",
    ]
    first, second = service.written
    assert (first.entity_urn, first.aspect_name) == ("urn:li:test:has-owner", "testInfo")
    assert {**first.aspect, "definition": None} == {
        "name": "Has an owner",
        "category": "governance",
        "description": "",
        "definition": None,
    }
    assert json.loads(first.aspect["definition"]["json"])["on"] == {"types": ["mlModel"]}
    assert second.aspect["category"] == "12:30"


def test_a_refused_test_is_reported_and_the_others_are_written(
    invoke: Invoke, service: Service, tmp_path: Path
) -> None:
    service.refuse = {"urn:li:test:named"}
    result = invoke("catalog", "tests", "push", str(written(tmp_path, TESTS)))
    assert result.code == 4
    assert result.out == "wrote urn:li:test:has-owner: Has an owner\n"
    assert "urn:li:test:named: testInfo was refused with 422: no" in result.err


def test_nothing_is_written_where_one_is_wrong(
    invoke: Invoke, service: Service, tmp_path: Path
) -> None:
    file = written(tmp_path, TESTS + "- {id: x, name: n, category: c, definition: {}}\n")
    result = invoke("catalog", "tests", "push", str(file))
    assert result.code == 2
    assert "tests.yml:12: [2].definition: on:" in result.err
    assert service.written == []


# --- reindex -------------------------------------------------------------------------------------


def test_reindexing_makes_the_index_anew(invoke: Invoke, tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    with closing(Store.open(database)) as store:
        put(store, model("m"), mlModelProperties={"name": "bold hare"})
        store.change(clear)
        assert search(store, "hare") == []
    result = invoke("catalog", "reindex", "--db", str(database))
    assert (result.code, result.out) == (0, f"indexed {1 + len(known_platforms())} entities\n")
    with closing(Store.open(database)) as store:
        assert search(store, "hare") == ["m"]


def test_what_is_served_or_not_there_is_not_reindexed(invoke: Invoke, tmp_path: Path) -> None:
    missing = invoke("catalog", "reindex", "--db", str(tmp_path / "no.db"))
    assert missing.code == 2
    assert "no catalog at" in missing.err
    (tmp_path / "c.db").write_text("x")
    with ServerLock.acquire(tmp_path / "c.db"):
        served = invoke("catalog", "reindex", "--db", str(tmp_path / "c.db"))
    assert served.code == 2
    assert "another catalog process serves" in served.err


def test_reindexing_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    moments_s = iter([0.0, 1.0, 6.0, 7.0])
    pace = Pace(5.0, lambda: next(moments_s), after_s=5.0)
    with caplog.at_level("INFO"):
        for entities in (1000, 2000, 3000):
            _log_indexed(pace, entities)
    assert caplog.messages == ["2,000 entities indexed"]
