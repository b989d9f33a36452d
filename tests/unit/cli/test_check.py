"""`mlcat-ingest check`: every side's findings, and whether one of them failed."""

import json
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MissingExtraError, SourceUnavailableError
from support.cli import Invoke
from support.fakes import FakeSink, FakeSource
from support.sides import Built, resolved_recipe


@dataclass
class FindingSource(FakeSource):
    """A source whose check finds what the test says, and then may break off."""

    findings: tuple[Finding, ...] = ()

    def check(self) -> Iterator[Finding]:
        yield from self.findings
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recipe_of(monkeypatch: pytest.MonkeyPatch, source: object, sink: object = None) -> None:
    resolved = resolved_recipe("", sink, source)
    for name in ("load_resolved", "resolve"):
        monkeypatch.setattr(f"mlcat_ingest.workflows.resolve.{name}", lambda _: resolved)


def test_every_side_is_tried_and_closed(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, sink = FakeSource(), FakeSink()
    recipe_of(monkeypatch, source, sink)
    result = invoke("check", "recipe.yml")
    assert result.code == 0
    letters = tmp_path / ".mlcat" / "test.dead.jsonl"
    assert result.out.splitlines() == [
        "ok       recipe: test: valid",
        "ok       the fake source",
        "ok       the catalog in memory",
        "ok       overlapping URNs: none among 0 sampled",
        f"ok       dead-letter file: {letters}: writable",
    ]
    assert (source.closed, sink.closed) == (2, 3)
    assert sink.writes == []
    assert list(tmp_path.iterdir()) == []


def test_an_address_can_be_checked(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe_of(monkeypatch, FakeSource())
    result = invoke("check", "http://mlflow:5000")
    assert result.code == 0
    assert "ok       the fake source" in result.out


def test_a_finding_that_failed_is_the_status(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = (
        Finding("listing runs", "failed", "403", hint="ask for READ"),
        Finding("the clock", "warning", "two \x1b minutes off"),
    )
    recipe_of(monkeypatch, FindingSource(findings=findings), FakeSink())
    result = invoke("check", "recipe.yml")
    assert result.code == 1
    assert result.out.splitlines()[1:4] == [
        "FAILED   listing runs: 403 (ask for READ)",
        "warning  the clock: two \\u001b minutes off",
        "ok       the catalog in memory",
    ]


@pytest.mark.parametrize(
    "error",
    [
        SourceUnavailableError("gone", hint="start it"),
        MissingExtraError("reading files", "mlflow"),
    ],
    ids=["while it looks", "before it is there"],
)
def test_an_error_is_a_finding(
    error: SourceUnavailableError | MissingExtraError,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = isinstance(error, SourceUnavailableError)
    side = Built(FindingSource(error=error) if late else error)
    recipe_of(monkeypatch, side, FakeSink())
    result = invoke("check", "recipe.yml")
    assert result.code == 1
    assert f"FAILED   source fake: {error}" in result.out.splitlines()
    assert "ok       the catalog in memory" in result.out.splitlines()
    assert result.err == ""


def test_the_findings_as_one_json_object(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = (Finding("listing runs", "failed", "403", hint="ask for READ"),)
    recipe_of(monkeypatch, FindingSource(findings=findings), FakeSink())
    result = invoke("check", "recipe.yml", "--json", "--write")
    reported = json.loads(result.out)
    assert (result.code, reported["recipe"], reported["failed"]) == (1, "test", 1)
    assert reported["findings"][1] == {
        "side": "source fake",
        "what": "listing runs",
        "outcome": "failed",
        "detail": "403",
        "hint": "ask for READ",
    }
    assert [one["detail"] for one in reported["findings"] if one["side"] == "sink fake"] == [
        "written"
    ]
    overlap = next(one for one in reported["findings"] if one["side"] == "overlap")
    assert (overlap["outcome"], overlap["hint"]) == ("warning", None)


def test_a_recipe_that_is_wrong_is_a_usage_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "recipe.yml").write_text("nmae: x")
    result = invoke("check", "recipe.yml", "--json")
    assert (result.code, result.out) == (2, "")
    assert "nmae" in result.err


def test_a_recipe_without_a_sink_is_warned_about(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe_of(monkeypatch, FakeSource())
    result = invoke("check", "recipe.yml")
    assert result.code == 0
    assert "warning  sink: none configured" in result.out


def test_several_problems_of_one_finding_are_one_line(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FindingSource(findings=(Finding("files", "failed", "a.yml:1: one\na.yml:2: two"),))
    recipe_of(monkeypatch, source, FakeSink())
    assert "FAILED   files: a.yml:1: one; a.yml:2: two" in invoke("check", "recipe.yml").out


@pytest.mark.process  # the import of MLflow may ask `uname`
def test_warnings_of_a_library_do_not_stand_between_the_findings(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exceptions = pytest.importorskip("mlflow.exceptions")
    from mlcat_ingest.sources.mlflow.read import client

    class WithoutCredentials:
        def __getattr__(self, method: str) -> Any:
            def call(**_: Any) -> None:
                for library in ("databricks.sdk", "mlflow.tracking", "alembic"):
                    logging.getLogger(library).warning("%s has no credentials", library)
                warnings.warn("no credentials either", stacklevel=1)
                raise exceptions.MlflowException(f"no credentials for {method}")

            return call

    monkeypatch.setattr(client, "_open_client", lambda _: WithoutCredentials())
    recipe = tmp_path / "recipe.yml"
    sink = {"type": "file", "config": {"path": "out.jsonl"}}
    source = {"type": "mlflow", "config": {"tracking_uri": "databricks", "reader": "client"}}
    recipe.write_text(json.dumps({"name": "r", "sources": [source], "sink": sink}))
    found = invoke("check", str(recipe))
    assert "no credentials for search_experiments" in found.out
    assert found.err == ""
