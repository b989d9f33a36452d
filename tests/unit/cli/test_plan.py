"""`mlcat-ingest plan` and `run --dry-run`: what they print, and how they end."""

import json
from pathlib import Path

import pytest

from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.recipe.secrets import SECRETS
from mlcat_ingest.workflows.plan_render import ENTITIES_SHOWN
from support.cli import Invoke
from support.fakes import FakeSource, model_urn
from support.sides import Sides, model


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", [("plan", "recipe.yml"), ("recipe.yml", "--dry-run")])
def test_a_plan_shows_what_a_run_would_write(
    invoke: Invoke, sides: Sides, words: tuple[str, ...]
) -> None:
    result = invoke(*words)
    assert result.code == 0
    assert result.out.splitlines() == [
        "test: plan, nothing was written",
        f"+ create {model_urn('r1')} r1",
        "    mlModelProperties (new)",
        "      + name: r1",
        "  records      1 read → a catalog in memory",
        "  mlModel      1 to create, 0 unchanged",
        (
            "  requests     1 to the source, 1 to the catalog; "
            "writing takes at most 1 more for 1 proposal"
        ),
    ]
    assert "comparing with a catalog in memory" in result.err
    assert sides.sink is not None
    assert sides.sink.writes == []


def test_the_first_entities_are_shown_and_the_others_counted(invoke: Invoke, sides: Sides) -> None:
    sides.source = FakeSource([[model(f"r{n:03}") for n in range(ENTITIES_SHOWN + 312)]])
    out = invoke("plan", "recipe.yml").out
    assert out.count("+ create") == ENTITIES_SHOWN
    assert "… and 312 more entities, see --json" in out
    assert "332 to create" in out


def test_json_is_an_object_a_line_and_a_summary_at_the_end(invoke: Invoke, sides: Sides) -> None:
    sides.source = FakeSource([[model(f"r{n:03}") for n in range(30)]])
    result = invoke("plan", "recipe.yml", "--json")
    *entities, last = [json.loads(line) for line in result.out.splitlines()]
    assert [one["kind"] for one in entities] == ["change"] * 30
    assert (entities[0]["field"], entities[0]["after"]) == ("name", "r000")
    assert last["kind"] == "summary"
    assert last["entities"]["mlModel"]["create"] == 30


def test_exit_code_tells_whether_there_is_something_to_write(invoke: Invoke, sides: Sides) -> None:
    assert invoke("plan", "recipe.yml").code == 0
    assert invoke("plan", "recipe.yml", "--exit-code").code == 5
    assert invoke("recipe.yml").code == 0
    sides.source = FakeSource([[model("r1")]])
    result = invoke("plan", "recipe.yml", "--exit-code")
    assert result.code == 0
    assert "1 unchanged" in result.out


def test_what_would_stop_a_run_stops_its_plan(invoke: Invoke, sides: Sides) -> None:
    sides.text = "limits: {max_new_entities: 0}"
    result = invoke("plan", "recipe.yml", "--exit-code")
    assert result.code == 2
    assert "a run would fail here: more than 0 new entities" in result.err
    sides.source = FakeSource(error=SourceUnavailableError("MLflow is gone", hint="start it"))
    result = invoke("plan", "recipe.yml", "--json")
    assert result.code == 1
    assert "a run would fail here: MLflow is gone (start it)" in result.err
    assert json.loads(result.out)["failure"] == "MLflow is gone (start it)"


def test_secrets_are_not_shown(invoke: Invoke, sides: Sides) -> None:
    SECRETS.add("hunter2-hunter2")
    sides.source = FakeSource([[model("r1", description="it is hunter2-hunter2")]])
    for words in (("plan", "recipe.yml"), ("plan", "recipe.yml", "--json")):
        result = invoke(*words)
        assert "it is ***" in result.out
        assert "hunter2" not in result.out


def test_a_dry_run_makes_no_report(invoke: Invoke, sides: Sides) -> None:
    for option in ("--report", "--changes"):
        assert invoke("recipe.yml", "--dry-run", option, "file.json").code == 2
    result = invoke("recipe.yml", "--dry-run", "--report", "report.json")
    assert result.code == 2
    assert "cannot be combined with --dry-run" in result.err
    assert sides.sink is not None
    assert sides.sink.reads == []
