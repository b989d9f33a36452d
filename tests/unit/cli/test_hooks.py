"""`mlcat-ingest hooks`, and runs that find a spool."""

import json
from pathlib import Path

import pytest

from mlcat_ingest.hooks.spool import Event, EventSpool
from support.cli import Invoke
from support.ports import free_port

pytestmark = pytest.mark.process


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe whose MLflow does not answer."""
    path = tmp_path / "recipe.yml"
    uri = f"http://127.0.0.1:{free_port()}"
    path.write_text(
        f"source: {{type: mlflow, config: {{tracking_uri: '{uri}', retries: 0}}}}\n"
        "sink: {type: file, config: {path: out.jsonl}}\n"
    )
    return path


def test_an_empty_spool_has_nothing_waiting_and_nothing_to_drain(
    recipe: Path, invoke: Invoke
) -> None:
    shown = invoke("hooks", "status", str(recipe))
    assert shown.code == 0
    assert f"{recipe.parent}/.mlcat/spool" in shown.out
    drained = invoke("hooks", "drain", str(recipe))
    assert (drained.code, drained.err) == (0, "hooks: processed 0 events of 0 runs; 0 remaining\n")
    assert not (recipe.parent / ".mlcat").exists()


def test_the_status_says_what_waits_what_was_dropped_and_why_a_drain_failed(
    recipe: Path, tmp_path: Path, invoke: Invoke
) -> None:
    spool = EventSpool(tmp_path / "spool", max_events=1)
    for run_id in ("a", "b"):
        EventSpool(spool.folder, max_events=1).put(Event(run_id))
    spool.backoff.record_failure("the catalog is down")
    spool.refused_file.write_text("{}\n")
    arguments = ("hooks", "status", str(recipe), "--spool", str(spool.folder))
    found = json.loads(invoke(*arguments, "--json").out)
    assert (found["waiting"], found["dropped"], found["draining"]) == (1, 1, False)
    text = invoke(*arguments).out
    assert "waiting   1, the oldest since 20" in text
    assert "the catalog is down" in text
    assert "dropped   1" in text
    assert (found["refused"], found["for_others"]) == (1, 0)
    assert "refused   1, see refused.jsonl" in text
    EventSpool(spool.folder).put(Event("c", recipe="/elsewhere/another.yml"))
    assert json.loads(invoke(*arguments, "--json").out)["for_others"] == 1
    assert "of these  1" in invoke(*arguments).out


def test_what_cannot_be_drained_stays_and_is_in_the_exit_status(
    recipe: Path, invoke: Invoke
) -> None:
    spool = EventSpool(recipe.parent / ".mlcat" / "spool")
    spool.put(Event("a", recipe=str(recipe)))
    done = invoke("hooks", "drain", str(recipe))
    assert done.code == 1
    assert "hooks: processed 0 events of 0 runs; 1 remaining" in done.err
    assert "Traceback" not in done.err
    assert len(spool.waiting()) == 1


@pytest.mark.parametrize("command", ["status", "drain", "serve"])
def test_a_recipe_that_is_not_there_is_a_usage_error(
    command: str, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCAT_WEBHOOK_SECRET", "made-up")
    typo = tmp_path / "typo.yml"
    done = invoke("hooks", command, str(typo))
    assert (done.code, done.out) == (2, "")
    assert str(typo) in done.err
    assert invoke("state", "show", str(typo)).err == done.err


@pytest.mark.parametrize("command", ["status", "drain"])
def test_the_recipe_is_that_of_the_environment_where_none_is_given(
    command: str, recipe: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLCAT_RECIPE", raising=False)
    none = invoke("hooks", command)
    assert none.code == 2
    assert "Missing argument 'RECIPE'" in none.err
    monkeypatch.setenv("MLCAT_RECIPE", str(recipe))
    assert invoke("hooks", command) == invoke("hooks", command, str(recipe))
    assert invoke("hooks", command).code == 0
    monkeypatch.setenv("MLCAT_RECIPE", "typo.yml")
    assert invoke("hooks", command).code == 2
    assert invoke("hooks", command, str(recipe)).code == 0


def test_a_drain_at_work_is_reported(recipe: Path, invoke: Invoke) -> None:
    spool = EventSpool(recipe.parent / ".mlcat" / "spool")
    spool.put(Event("a", recipe=str(recipe)))
    with spool.drain_lock():
        done = invoke("hooks", "drain", str(recipe))
    assert (done.code, done.err) == (0, "hooks: another drain of this spool is in progress\n")


def test_webhooks_need_a_secret_and_a_recipe_in_a_file(
    recipe: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = invoke("hooks", "serve", str(recipe))
    assert (none.code, "set MLCAT_WEBHOOK_SECRET" in none.err) == (2, True)
    empty = recipe.parent / "secret"
    empty.write_text("\n")
    done = invoke("hooks", "serve", str(recipe), "--secret-file", str(empty))
    assert (done.code, "--secret-file" in done.err) == (2, True)
    monkeypatch.setenv("MLCAT_WEBHOOK_SECRET", "made-up")
    address = invoke("hooks", "serve", "http://127.0.0.1:5000")
    assert (address.code, "has to be a file" in address.err) == (2, True)
