"""`mlcat-ingest check`: every side's findings, and whether one of them failed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mlcat_ingest.errors import MissingExtraError, SourceUnavailableError
from mlcat_ingest.findings import Finding
from mlcat_ingest.pipeline.resolve import Resolved
from mlcat_ingest.recipe.model import Recipe
from support.cli import Invoke
from support.fakes import FakeSink, FakeSource


@dataclass
class Side:
    """One side of a resolved recipe with the findings a test wants."""

    side: FakeSource | FakeSink | Exception
    type: str = "fake"

    def build(self) -> FakeSource | FakeSink:
        if isinstance(self.side, Exception):
            raise self.side
        return self.side


@dataclass
class FindingSource(FakeSource):
    """A source whose check finds what the test says, and then may break off."""

    findings: tuple[Finding, ...] = ()

    def check(self) -> Iterator[Finding]:
        yield from self.findings
        if self.error is not None:
            raise self.error


def recipe_of(monkeypatch: pytest.MonkeyPatch, source: Side, sink: Side | None = None) -> None:
    recipe = Recipe.parse("{name: test, sources: [{type: mlflow}]}")
    resolved = Resolved(recipe, (source,), sink)  # type: ignore[arg-type]
    for name in ("load_resolved", "resolve"):
        monkeypatch.setattr(f"mlcat_ingest.pipeline.resolve.{name}", lambda _: resolved)


def test_every_side_is_tried_and_closed(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    source, sink = FakeSource(), FakeSink()
    recipe_of(monkeypatch, Side(source), Side(sink))
    result = invoke("check", "recipe.yml")
    assert result.code == 0
    assert result.out.splitlines() == [
        "ok       recipe: test: valid",
        "ok       the fake source",
        "ok       the fake catalog",
    ]
    assert (source.closed, sink.closed) == (1, 1)
    assert sink.requests_made() == 0


def test_an_address_can_be_checked(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe_of(monkeypatch, Side(FakeSource()))
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
    recipe_of(monkeypatch, Side(FindingSource(findings=findings)), Side(FakeSink()))
    result = invoke("check", "recipe.yml")
    assert result.code == 1
    assert result.out.splitlines()[1:4] == [
        "FAILED   listing runs: 403",
        "         ask for READ",
        "warning  the clock: two \\u001b minutes off",
    ]
    assert result.out.splitlines()[-1] == "ok       the fake catalog"


@pytest.mark.parametrize(
    ("side", "line"),
    [
        (
            Side(FindingSource(error=SourceUnavailableError("gone", hint="start it"))),
            "FAILED   source fake: gone",
        ),
        (
            Side(MissingExtraError("reading files", "mlflow")),
            "FAILED   source fake: reading files needs the optional packages of the extra 'mlflow'",
        ),
    ],
)
def test_an_error_is_a_finding(
    side: Side, line: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe_of(monkeypatch, side, Side(FakeSink()))
    result = invoke("check", "recipe.yml")
    assert result.code == 1
    assert line in result.out.splitlines()
    assert result.err == ""


def test_a_recipe_without_a_sink_is_warned_about(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe_of(monkeypatch, Side(FakeSource()))
    result = invoke("check", "recipe.yml")
    assert result.code == 0
    assert "warning  sink: none is given" in result.out
