"""The doctor over fakes: bounded in time, what others hold, and where a recipe remembers."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.state.inspection import dead_letter_finding, state_findings
from mlcat_ingest.pipeline.state.locks import acquire
from mlcat_ingest.pipeline.state.opening import open_database, open_state
from mlcat_ingest.recipe.fields import RecipeModel
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sql.engine import TextEngine
from mlcat_ingest.workflows.check import SAMPLE, examine, overlap
from mlcat_ingest.workflows.resolve import ResolvedSource
from support.fakes import FakeSink, FakeSource, group_urn, model_urn
from support.sides import Built, resolved_recipe


def of(found: list[Finding], side: str) -> list[Finding]:
    return [replace(one, side="") for one in found if one.side == side]


@dataclass
class Waiting(FakeSource):
    """A source whose check never ends by itself."""

    over: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def check(self) -> Iterator[Finding]:
        yield Finding("the first answer", "ok")
        self.over.wait()

    def close(self) -> None:
        self.ended.set()


def test_a_side_that_never_ends_is_given_up() -> None:
    waiting = Waiting()
    try:
        found = list(examine(resolved_recipe("", None, waiting), patience_s=0.1))
    finally:
        waiting.over.set()
    assert of(found, "source fake")[-1].outcome == "failed"
    assert "not done within" in of(found, "source fake")[-1].detail
    assert waiting.ended.wait(60)


def test_a_side_that_fails_hides_no_other() -> None:
    gone = Gone(error=SourceUnavailableError("gone"))
    found = list(examine(resolved_recipe("", FakeSink(), gone)))
    assert of(found, "source fake") == [Finding("source fake", "failed", "gone")]
    assert of(found, "sink fake") == [Finding("the catalog in memory", "ok")]


@pytest.mark.parametrize(
    ("types", "names"),
    [
        (("fake",), [""]),
        (("feast", "mlflow"), [" of source feast", " of source mlflow"]),
        (
            ("feast", "mlflow", "mlflow"),
            [
                *(" of source feast", " of source mlflow (sources[1])"),
                " of source mlflow (sources[2])",
            ],
        ),
    ],
)
def test_findings_name_their_source(types: tuple[str, ...], names: list[str]) -> None:
    sources = [Built(FakeSource(), type_, place=f"sources[{at}]") for at, type_ in enumerate(types)]
    found = of(list(examine(resolved_recipe("", FakeSink(), *sources))), "overlap")
    assert [one.what for one in found] == [f"overlapping URNs{name}" for name in names]
    sources[-1].side = Gone(error=SourceUnavailableError("gone"))
    sides = list(examine(resolved_recipe("", FakeSink(), *sources)))
    [skipped] = of(sides, "overlap")
    [failed] = [one.side for one in sides if one.outcome == "failed"]
    assert skipped.detail == f"not checked, because of: {failed}"


class Gone(FakeSource):
    """A source that nobody can look at."""

    def check(self) -> Iterator[Finding]:
        assert self.error is not None
        raise self.error


def test_sides_are_asked_to_give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[MlflowConfig] = []

    def build(self: ResolvedSource) -> FakeSource:
        assert isinstance(self.config, MlflowConfig)
        built.append(self.config)
        return FakeSource()

    monkeypatch.setattr(ResolvedSource, "build", build)
    patient = MlflowConfig(tracking_uri="http://mlflow", retries=9, timeout_s=900, page_size=10)
    list(examine(resolved_recipe("", None, ResolvedSource("mlflow", patient, "sources[0]"))))
    assert [(one.retries, one.timeout_s, one.page_size) for one in built] == [(0, 15.0, 10)]


def test_a_fault_of_the_doctors_own_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        list(examine(resolved_recipe("", None, Broken())))


class Broken(FakeSource):
    """A source whose check has a fault."""

    def check(self) -> Iterator[Finding]:
        yield Finding("half", "ok", str(1 // 0))


# --- what others hold ----------------------------------------------------------------------------


def group(name: str, source: str = "mlflow:ours:default") -> Entity:
    properties = {"name": name, "customProperties": {"mlcat.source": source}}
    return Entity(group_urn(name), {"mlModelGroupProperties": properties})


def stored(**custom: str) -> dict[str, Any]:
    return {"mlModelGroupProperties": {"customProperties": custom}}


def overlapping(entities: list[Entity], there: dict[str, dict[str, Any]]) -> Finding:
    source, sink = FakeSource([entities]), FakeSink(stored=there)
    [finding] = overlap(source, sink, Writer("mine"))
    assert (source.closed, sink.closed, sink.writes) == (1, 1, [])
    return finding


def test_what_another_server_wrote_asks_for_an_instance() -> None:
    there = {
        group_urn("a"): stored(**{"mlcat.source": "mlflow:theirs:default"}),
        group_urn("b"): stored(**{"mlcat.source": "feast:theirs:x"}),
    }
    found = overlapping([group("a"), group("b"), group("c")], there)
    assert found.outcome == "failed"
    assert found.detail.startswith(f"1 of 3 sampled belong to another server: {group_urn('a')}")
    assert found.hint is not None
    assert "set `instance: NAME`" in found.hint


def test_another_recipe_on_the_same_entities_is_named() -> None:
    ours = {"mlcat.source": "mlflow:ours:default", "mlcat.applied.mine": "1 {}"}
    there = {group_urn("a"): stored(**ours, **{"mlcat.applied.old": "1 {}"})}
    found = overlapping([group("a"), group("b")], there)
    assert found.outcome == "warning"
    assert "old (1)" in found.detail
    assert overlapping([group("a")], {group_urn("a"): stored(**ours)}).outcome == "ok"


def test_what_people_or_another_tool_made_is_no_fault() -> None:
    found = overlapping([group("a"), group("b")], {group_urn("a"): stored(team="x")})
    assert found.outcome == "ok"
    assert "1 entity of others" in found.detail


def test_a_sample_ends_with_the_page_that_fills_it() -> None:
    pages = [[group(f"{page} {at}") for at in range(SAMPLE // 2 + 1)] for page in range(3)]
    source, sink = FakeSource(pages), FakeSink()
    [found] = overlap(source, sink, Writer("mine"))
    assert source.requests == 2
    assert found.detail == f"none among {SAMPLE} sampled"


def test_tags_that_are_only_referred_to_are_nobodys() -> None:
    tag = Entity("urn:li:tag:x", {"tagProperties": {"name": "x"}}, only_if_absent=True)
    model = Entity(model_urn("m"), {"mlModelProperties": {}})
    assert overlapping([tag, model], {}).detail == "none among 1 sampled"


# --- where a recipe remembers --------------------------------------------------------------------


def outcomes(url: str) -> dict[str, str]:
    return {one.what: one.outcome for one in state_findings(url, "mine")}


def test_state_that_is_still_to_be_made_is_not_made(tmp_path: Path) -> None:
    assert outcomes(f"sqlite:///{tmp_path}/.mlcat/state.db") == {"state database": "ok"}
    assert list(tmp_path.iterdir()) == []


def test_state_that_is_there_and_free(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    open_state(url).dispose()
    assert outcomes(url) == {"state database": "ok", "state lock": "ok"}


def test_a_run_that_is_at_work(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    engine = open_state(url)
    lock = acquire(engine, url, "mine")
    try:
        [_, found] = state_findings(url, "mine")
        assert found.outcome == "warning"
        assert "a run of 'mine' is in progress: process" in found.detail
    finally:
        lock.release()
        engine.dispose()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for finding in (
        *state_findings(f"sqlite:///{tmp_path}/file/state.db", "mine"),
        dead_letter_finding(tmp_path / "file" / "dead.jsonl"),
        dead_letter_finding(tmp_path),
    ):
        assert finding.outcome == "failed"
        assert "cannot write" in finding.detail
        assert finding.hint is not None


def test_a_folder_without_the_right_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    open_state(url).dispose()
    # Tests may run as root, who may write everywhere.
    monkeypatch.setattr("mlcat_ingest.pipeline.state.inspection.os.access", lambda *_: False)
    assert outcomes(url) == {"state database": "failed"}
    assert dead_letter_finding(tmp_path / "dead.jsonl").outcome == "failed"


def test_connecting_to_a_server_takes_no_longer_than_it_may() -> None:
    for query, timeout in {"": "10", "?connect_timeout=2": "2"}.items():
        engine = open_database(f"postgresql://u:p@db/x{query}", connect_timeout_s=10)
        assert isinstance(engine, TextEngine)
        assert engine._engine.url.query == {"connect_timeout": timeout}


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database, but a text that is long enough " * 40)
    [found] = state_findings(f"sqlite:///{tmp_path}/state.db", "mine")
    assert found.outcome == "warning"
    assert "damaged" in found.detail
    assert found.hint is not None
    assert "the next run sets the file aside" in found.hint


def test_only_numbers_are_capped_whatever_a_source_calls_by_their_names() -> None:
    class Config(RecipeModel):
        connections: dict[str, str] = Field(default={"snowflake": "ANALYTICS"})
        retries: int = 5

    asked: list[Config] = []

    class Other(Built):
        def build(self, **_: object) -> object:
            assert isinstance(self.config, Config)
            asked.append(self.config)
            return self.side

    list(examine(resolved_recipe("", None, Other(FakeSource([]), config=Config()))))
    assert asked
    assert {(one.connections["snowflake"], one.retries) for one in asked} == {("ANALYTICS", 0)}
