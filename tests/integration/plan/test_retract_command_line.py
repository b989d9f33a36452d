"""Retractions by the command line, with another recipe and a person beside us in the catalog."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.pipeline.state.inspection import summary
from support import small_store
from support.catalog_server import running_catalog
from support.small_store import GROUP, A, B, C, SmallStore

HOME = "mlModelProperties"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SmallStore]:
    with running_catalog(tmp_path / "served.db") as catalog:
        yield small_store.make(tmp_path, catalog.url)


def content(stored: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what entities say; what is empty says as much as what is not there."""
    return {
        urn: {
            name: kept
            for name, aspect in aspects.items()
            if (kept := {field: one for field, one in aspect.items() if one not in ([], {})})
        }
        for urn, aspects in stored.items()
    }


def retract(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    capfd.readouterr()
    code = call(["retract", *words, "--yes", "--json"])
    return code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def edit(store: SmallStore) -> None:
    """Add a custom property and a tag as a person does."""
    stored = store.stored(A)[A]
    custom = {**stored[HOME]["customProperties"], "team": "risk"}
    tags = [*stored["globalTags"]["tags"], {"tag": "urn:li:tag:reviewed"}]
    store.put(
        A,
        mlModelProperties={**stored[HOME], "customProperties": custom},
        globalTags={"tags": tags},
    )


def test_alone_we_leave_nothing_and_a_new_run_brings_all_back(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe()
    assert call([recipe, "-q"]) == 0
    before = store.stored(A, B, GROUP)
    code, (*entities, plan, report) = retract(capfd, recipe)
    assert code == 0
    assert {one["urn"]: one["action"] for one in entities} == dict.fromkeys((GROUP, A, B), "remove")
    assert plan["entities"]["mlModel"]["remove"] == 2
    assert report["entities"]["mlModel"]["removed"] == 2
    assert report["exit_code"] == 0
    left = content(store.stored(A, B, GROUP))
    assert left == {urn: {"status": {"removed": True}} for urn in (A, B, GROUP)}
    assert summary(f"sqlite:///{store.folder}/.mlcat/state.db", "prod").parts == ()

    capfd.readouterr()
    assert call(["retract", recipe, "--yes"]) == 0
    reported = capfd.readouterr()
    assert "nothing of 'prod'" in reported.err
    assert content(store.stored(A, B, GROUP)) == left

    assert call([recipe, "-q"]) == 0
    after = store.stored(A, B, GROUP)
    assert {urn: {**one, "status": None} for urn, one in content(after).items()} == {
        urn: {**one, "status": None} for urn, one in content(before).items()
    }
    assert {one["status"]["removed"] for one in after.values()} == {False}


@pytest.mark.parametrize("forgotten", [False, True])
def test_another_recipe_and_a_person_lose_nothing(
    store: SmallStore,
    capfd: pytest.CaptureFixture[str],
    forgotten: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    tagged = "enrich: [{match: {entity: mlModel}, add_tags: [theirs]}]\n"
    other = store.recipe("other", f"writer_id: other\n{tagged}")
    assert call([other, "-q"]) == 0
    edit(store)
    theirs = content(store.stored(A, B, GROUP))
    store.add_run("c", lr="3")
    prod = store.recipe(
        "prod", "writer_id: prod\nenrich: [{match: {entity: mlModel}, add_tags: [ours]}]\n"
    )
    assert call([prod, "-q"]) == 0
    store.put(C, mlModelProperties={**store.stored(C)[C][HOME], "description": "a person's"})
    assert {"tag": "urn:li:tag:ours"} in store.stored(A)[A]["globalTags"]["tags"]
    if forgotten:
        for path in (store.folder / ".mlcat").glob("state.db*"):
            path.unlink()
    code, (*changes, plan, report) = retract(capfd, prod)
    assert code == 0
    assert {one["urn"]: one["action"] for one in changes} == dict.fromkeys((A, B, C), "update")
    assert plan["entities"]["mlModelGroup"]["bookkeeping"] == 1
    assert report["kept_aspects"] == 0
    assert content(store.stored(A, B, GROUP)) == theirs
    assert content(store.stored(C)) == {C: {HOME: {"description": "a person's"}}}
    if not forgotten:
        assert summary(f"sqlite:///{store.folder}/.mlcat/state.db", "other").parts != ()
    # The other recipe finds all of its own as it was.
    store.change("DELETE FROM runs WHERE run_uuid = 'c'")
    capfd.readouterr()
    assert call(["plan", other, "--full", "--exit-code"]) == 0


def test_it_asks(
    store: SmallStore, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = store.recipe()
    assert call([recipe, "-q"]) == 0
    before = store.stored(A, B, GROUP)
    capfd.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert call(["retract", recipe]) == 2
    shown = capfd.readouterr()
    assert shown.out.startswith("prod: to be retracted")
    assert f"- remove {A}" in shown.out
    assert "Retract 3 entities" in shown.err
    assert "use --yes" in shown.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert call(["retract", recipe]) == 1
    assert store.stored(A, B, GROUP) == before
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert call(["retract", recipe]) == 0
    assert "prod: everything was retracted" in capfd.readouterr().out
    assert store.stored(A)[A]["status"] == {"removed": True}


def test_a_recipe_that_never_ran_has_nothing_to_take_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = small_store.make(tmp_path)
    assert call(["retract", store.recipe()]) == 0
    assert "nothing of 'prod'" in capfd.readouterr().err
    assert not store.catalog.exists()
    assert not (store.folder / ".mlcat").exists()


def test_a_file_keeps_nothing_to_take_back(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe()
    Path(recipe).write_text(
        "source: {type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}\n"
        "sink: {type: file, config: {path: out.json}}\n"
    )
    assert call(["retract", recipe]) == 2
    assert "keeps no entities to retract" in capfd.readouterr().err
