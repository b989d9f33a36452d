"""Plans by the command line, from an MLflow store into the embedded catalog."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.pipeline.state.inspection import summary as summary_of
from support import small_store
from support.catalog_server import running_catalog
from support.fakes import group_urn
from support.small_store import GROUP, A, B, C, SmallStore

RENAMED = group_urn("churn 2")

Change = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> SmallStore:
    return small_store.make(tmp_path)


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the files of a folder; SQLite's own beside a database come and go by reading."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def plan(
    capfd: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[Change], dict[str, Any]]:
    capfd.readouterr()
    code = call(["plan", *words, "--json"])
    *changes, summary = map(json.loads, capfd.readouterr().out.splitlines())
    return code, changes, summary


def actions(changes: list[Change]) -> dict[str, str]:
    return {one["urn"]: one["action"] for one in changes}


def test_plans_around_a_run(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = store.recipe()
    before = fingerprint(store.folder)
    code, changes, summary = plan(capfd, recipe, "--exit-code")
    assert code == 5
    assert set(actions(changes).values()) == {"create"}
    assert {GROUP, A, B} <= actions(changes).keys()
    assert fingerprint(store.folder) == before
    assert summary["catalog_requests"] == 0

    assert call([recipe, "-q"]) == 0
    assert plan(capfd, recipe, "--exit-code", "--full")[0] == 0

    stored = store.stored(A)[A]
    store.put(
        A,
        mlModelProperties={
            **stored["mlModelProperties"],
            "hyperParams": [*stored["mlModelProperties"]["hyperParams"], {"name": "theirs"}],
        },
    )
    store.change("UPDATE params SET value = '9' WHERE run_uuid = 'a' AND key = 'lr'")
    store.change("DELETE FROM params WHERE run_uuid = 'a' AND key = 'depth'")
    store.change("UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = 'b'")
    store.add_run("c", lr="1")
    before = fingerprint(store.folder)
    code, changes, summary = plan(capfd, recipe, "--full")
    assert code == 0
    assert actions(changes) == {A: "update", B: "remove", C: "create"}
    params = {
        one["entry"]: (one.get("before"), one.get("after"))
        for one in changes
        if (one["urn"], one["field"]) == (A, "hyperParams")
    }
    assert params == {
        "lr": ({"name": "lr", "value": "0.1"}, {"name": "lr", "value": "9"}),
        "depth": ({"name": "depth", "value": "3"}, None),
    }
    assert fingerprint(store.folder) == before
    assert call([recipe, "-q", "--full"]) == 0
    params = store.stored(A)[A]["mlModelProperties"]["hyperParams"]
    assert {one["name"]: one.get("value") for one in params} == {"lr": "9", "theirs": None}

    store.change("UPDATE runs SET lifecycle_stage = 'active' WHERE run_uuid = 'b'")
    _, changes, _ = plan(capfd, recipe, "--full")
    assert actions(changes) == {B: "revive"}


def test_what_is_gone_and_what_has_another_name_is_in_the_plan(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_catalog(tmp_path / "served.db") as catalog:
        store = small_store.make(tmp_path, catalog.url)
        recipe = store.recipe()
        assert call([recipe, "-q"]) == 0
        store.put(GROUP, globalTags={"tags": [{"tag": "urn:li:tag:theirs"}]})
        store.change("DELETE FROM params WHERE run_uuid = 'b'")
        store.change("DELETE FROM runs WHERE run_uuid = 'b'")
        store.change("UPDATE experiments SET name = 'churn 2'")
        state = summary_of(f"sqlite:///{tmp_path}/.mlcat/state.db", "prod")
        before = store.stored(A, B, GROUP, RENAMED)
        code, changes, _ = plan(capfd, recipe, "--full")
        assert code == 0
        assert actions(changes) == {
            A: "update",
            B: "remove",
            GROUP: "remove",
            RENAMED: "create",
        }
        copied = [one for one in changes if one["aspect"] == "globalTags"]
        assert [(one["urn"], one["entry"]) for one in copied] == [(RENAMED, "urn:li:tag:theirs")]
        assert store.stored(A, B, GROUP, RENAMED) == before
        assert summary_of(f"sqlite:///{tmp_path}/.mlcat/state.db", "prod") == state
        assert call([recipe, "-q", "--full"]) == 0
        assert store.stored(B)[B]["status"] == {"removed": True}
        assert plan(capfd, recipe, "--full", "--exit-code")[0] == 0


def test_a_plan_for_a_file_makes_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = small_store.make(tmp_path)
    recipe = Path(store.recipe())
    recipe.write_text(
        "source: {type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}\n"
        "sink: {type: file, config: {path: out/x.json}}\n"
    )
    before = fingerprint(tmp_path)
    code, changes, summary = plan(capfd, str(recipe))
    assert code == 0
    assert {GROUP, A, B} <= actions(changes).keys()
    assert fingerprint(tmp_path) == before
    assert summary["catalog"].startswith("the file ")
