"""Dead letters: what could not be delivered, and that there is no file where all was."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import RecordError, SourceUnavailableError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import SECRETS
from support.fakes import FakeSink, FakeSource, model_urn
from support.machine import needs_dev_full
from support.recipes import a_recipe


def model(name: str, **properties: object) -> Entity:
    return Entity(model_urn(name), {"mlModelProperties": {"name": name, **properties}})


def run(path: Path, *entities: Entity, refuse: Any = (), source: Any = None) -> Report:
    sink = FakeSink(refuse=refuse)
    options = RunOptions(a_recipe("t"), dead_letters=DeadLetters(path))
    return PipelineRun([source or FakeSource([list(entities)])], sink, options).execute()


def letters(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_refused_proposal_is_kept_with_its_reason(tmp_path: Path) -> None:
    SECRETS.add("sesame-of-letters")
    path = tmp_path / "deep" / "down" / "t.dead.jsonl"
    secret = model("b", description="sesame-of-letters")
    report = run(path, model("a"), secret, refuse={model_urn("b")})
    [letter] = letters(path)
    assert letter.pop("at_ms") >= report.started_at_ms
    proposal = letter.pop("proposal")
    assert letter == {
        "urn": model_urn("b"),
        "aspect": "mlModelProperties",
        "record": None,
        "reason": "422 not liked",
        "attempt": 1,
    }
    assert proposal["entityUrn"] == model_urn("b")
    assert proposal["aspect"]["json"]["description"] == "***"
    assert (report.dead_letters, report.dead_letter_file, report.exit_code) == (1, str(path), 4)


def test_a_record_that_is_not_usable_is_kept_by_its_name(tmp_path: Path) -> None:
    def fail(_: object) -> list[Entity]:
        raise RecordError("no id\x1b", record_ref="run 7")

    run(tmp_path / "d", source=FakeSource([[1]], fail))
    [letter] = letters(tmp_path / "d")
    assert (letter["record"], letter["reason"]) == ("run 7", r"no id\u001b")
    assert letter["urn"] is letter["aspect"] is letter["proposal"] is None


@pytest.mark.parametrize("value", [float("nan"), "\ud800"])
def test_what_has_no_json_form_is_shown(tmp_path: Path, value: object) -> None:
    run(tmp_path / "d", model("a", extra=value))
    [letter] = letters(tmp_path / "d")
    assert letter["proposal"] is None
    assert "'name': 'a'" in letter["shown"]


def test_there_is_no_file_where_nothing_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "none" / "d"
    report = run(path, model("a"))
    assert not path.parent.exists()
    assert (report.dead_letters, report.dead_letter_file) == (0, None)


def test_a_run_replaces_or_removes_what_the_last_one_left(tmp_path: Path) -> None:
    path = tmp_path / "d"
    both = {model_urn("a"), model_urn("b")}
    run(path, model("a"), model("b"), refuse=both)
    assert len(letters(path)) == 2
    run(path, model("a"), model("b"), refuse={model_urn("a")})
    assert [letter["urn"] for letter in letters(path)] == [model_urn("a")]
    broken = FakeSource([[model("a")]], error=SourceUnavailableError("gone"))
    run(path, source=broken)
    assert len(letters(path)) == 1
    run(path, model("a"))
    assert not path.exists()


def test_a_file_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    report = run(tmp_path / "file" / "d", model("a"), model("b"), refuse={model_urn("a")})
    assert "dead letters cannot be kept" in caplog.text
    assert (report.dead_letters, report.dead_letter_file, report.exit_code) == (1, None, 4)


def test_a_file_that_cannot_be_removed_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    report = run(tmp_path / "file" / "d", model("a"))
    assert "cannot be removed: Not a directory" in caplog.text
    assert report.exit_code == 0


@needs_dev_full
def test_a_full_disk_costs_a_message_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "d"
    path.symlink_to("/dev/full")
    report = run(path, model("a"), model("b"), refuse={model_urn("a")})
    [sentence] = [one for one in caplog.records if "dead letters cannot be kept" in one.message]
    assert str(path) in sentence.message
    assert sentence.levelname == "ERROR"  # what is lost is said to those who asked for quiet, too
    assert (report.dead_letters, report.dead_letter_file, report.exit_code) == (1, None, 4)


def test_the_recipe_says_where_they_go(tmp_path: Path) -> None:
    def file_of(text: str) -> Path:
        recipe = Recipe.parse(f"{{sources: [{{type: mlflow}}]{text}}}", base_dir=tmp_path)
        return recipe.dead_letter_file

    assert file_of(", name: prod") == tmp_path / ".mlcat" / "prod.dead.jsonl"
    assert file_of(", dead_letters: out/x.jsonl") == tmp_path / "out" / "x.jsonl"
    one, two = (file_of(f", name: '{name}'").name for name in ("a/b", "a?b"))
    assert one != two
    assert one.startswith("a-b-")


def test_a_further_part_of_a_run_adds_to_what_the_first_one_left(tmp_path: Path) -> None:
    path = tmp_path / "t.dead.jsonl"
    reported: list[str] = []
    entities = [model("a"), model("b")]
    for number, refused in enumerate(["a", "b", ""]):
        options = RunOptions(
            a_recipe("t"),
            dead_letters=DeadLetters(path, reported.append, add=number > 0),
        )
        sink = FakeSink(refuse={model_urn(refused)})
        PipelineRun([FakeSource([entities])], sink, options).execute()
    assert [one["urn"] for one in letters(path)] == reported == [model_urn("a"), model_urn("b")]


def test_a_record_without_entities_is_reported_by_its_name() -> None:
    def fail(_: object) -> list[Entity]:
        raise RecordError("no id", record_ref="run 7")

    reported: list[str] = []
    options = RunOptions(a_recipe("t"), dead_letters=DeadLetters(None, reported.append))
    PipelineRun([FakeSource([[1]], fail)], FakeSink(), options).execute()
    assert reported == ["run 7"]
