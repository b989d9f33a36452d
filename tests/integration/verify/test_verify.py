"""`verify` by the command line: silent after a run, and each kind of difference is counted."""

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.pipeline.write import searchable
from support import small_store
from support.catalog_server import running_catalog
from support.fakes import model_urn
from support.gms import GmsProfile, running_gms
from support.small_store import GROUP, A, B, C, SmallStore

HOME = "mlModelProperties"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searchable, "PAUSES_S", (0.0,))
    monkeypatch.setattr(searchable, "RECENT_S", -60.0)


@pytest.fixture(params=["embedded catalog", "GMS"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallStore]:
    running: Any = running_gms if request.param == "GMS" else running_catalog
    with running(tmp_path / "served.db") as catalog:
        yield small_store.make(tmp_path, catalog.url)


def verified(
    capfd: pytest.CaptureFixture[str], recipe: str
) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    capfd.readouterr()
    code = call(["verify", recipe, "--json", "-q"])
    *changes, summary = map(json.loads, capfd.readouterr().out.splitlines())
    return code, changes, summary


def counts(summary: dict[str, Any]) -> tuple[int, ...]:
    names = ("compared", "missing", "stale", "to_be_removed", "not_searchable")
    return tuple(summary[name] for name in names)


def test_a_run_leaves_nothing_to_find(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = store.recipe()
    code, changes, summary = verified(capfd, recipe)
    assert (code, counts(summary)) == (4, (3, 3, 0, 0, 0))
    assert {one["action"] for one in changes} == {"create"}
    assert store.stored(A)[A] == {}
    assert not (store.folder / ".mlcat").exists()

    assert call([recipe, "-q"]) == 0
    state = store.folder / ".mlcat" / "state.db"
    before = hashlib.sha256(state.read_bytes()).digest()
    assert verified(capfd, recipe)[:2] == (0, [])
    assert hashlib.sha256(state.read_bytes()).digest() == before
    assert call(["verify", recipe, "-q"]) == 0
    ok = "OK: 2 models, 1 group of models and all their values are in the catalog.\n"
    assert capfd.readouterr().out == ok
    assert call(["verify", recipe, "-v"]) == 0
    assert capfd.readouterr().out == (
        f"{ok}3 entities compared, 0 missing, 0 stale, 0 to be removed, "
        "0 stored but not searchable now\n"
    )


def test_each_difference_is_counted(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = store.recipe(more="limits: {max_new_entities: 4, max_removed_ratio: 0}\n")
    assert call([recipe, "-q"]) == 0
    properties = store.stored(A)[A][HOME]
    params = [{"name": "lr", "value": "7"}, {"name": "theirs", "value": "1"}]
    store.put(A, mlModelProperties={**properties, "hyperParams": params})
    store.put(B, status={"removed": True})
    store.add_run("c", lr="1")
    ours = {key: text for key, text in properties["customProperties"].items() if "mlcat." in key}
    for n in range(12):  # more than a run may remove by its limit
        custom = {**ours, "mlflow.run_id": f"gone{n}"}
        store.put(model_urn(f"gone{n}"), mlModelProperties={"customProperties": custom})
    code, changes, summary = verified(capfd, recipe)
    assert (code, counts(summary)) == (4, (16, 2, 1, 12, 0))
    places = {(one["urn"], one["action"], one["field"], one.get("entry")) for one in changes}
    assert {
        (A, "update", "hyperParams", "lr"),
        (A, "update", "hyperParams", "depth"),
        (B, "revive", "removed", None),
        (C, "create", "hyperParams", "lr"),
    } <= places
    assert not any(entry == "theirs" for _, _, _, entry in places)

    assert call(["verify", recipe, "-q"]) == 4
    first, *rest = capfd.readouterr().out.splitlines()
    assert first == (
        "16 entities compared, 2 missing, 1 stale, 12 to be removed, "
        "0 stored but not searchable now"
    )
    assert f"~ update {A} run a (churn)" in rest
    assert "        ~ lr: 7 → 0.1" in rest
    assert f"^ revive {B} run b (churn)" in rest


def test_only_internal_properties_are_no_difference(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe()
    assert call([recipe, "-q"]) == 0
    properties = store.stored(A)[A][HOME]
    custom = properties["customProperties"]
    kept = {name: text for name, text in custom.items() if not name.startswith("mlcat.applied.")}
    store.put(A, mlModelProperties={**properties, "customProperties": kept})
    code, changes, summary = verified(capfd, recipe)
    assert (code, changes, counts(summary)) == (0, [], (3, 0, 0, 0, 0))


def test_what_a_search_does_not_list_is_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_gms(tmp_path / "served.db", GmsProfile(index_refresh_s=math.inf)) as gms:
        store = small_store.make(tmp_path, gms.url)
        recipe = store.recipe()
        assert call([recipe, "-q"]) == 0
        code, changes, summary = verified(capfd, recipe)
        assert (code, changes, counts(summary)) == (4, [], (3, 0, 0, 0, 3))
        assert set(summary["not_searchable_urns"]) == {GROUP, A, B}
        gms.catch_up()
        assert verified(capfd, recipe)[0] == 0


def test_a_sink_that_a_command_starts_is_verified(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = small_store.make(tmp_path)
    recipe = store.recipe()
    assert verified(capfd, recipe)[0] == 4
    assert not store.catalog.exists()
    assert call([recipe, "-q"]) == 0
    code, _, summary = verified(capfd, recipe)
    assert (code, summary["found"], summary["stored"]) == (0, 3, 3)


def test_what_cannot_be_verified(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.yml"
    source = "source: {type: mlflow, config: {tracking_uri: 'http://127.0.0.1:9', retries: 0}}\n"
    recipe.write_text(f"{source}sink: {{type: embedded, config: {{db: catalog.db}}}}\n")
    assert call(["verify", str(recipe), "-q"]) == 1
    reported = capfd.readouterr()
    assert "connection refused" in reported.err.lower()
    assert reported.out == ""
    recipe.write_text(f"{source}sink: {{type: file, config: {{path: out.json}}}}\n")
    assert call(["verify", str(recipe), "-q"]) == 2
    assert "nothing to verify" in capfd.readouterr().err
