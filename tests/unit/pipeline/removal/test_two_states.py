"""States that share entities: two teams of one recipe name, a lost state, runs without a volume."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.base import numbers_in
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import writer_id_of
from mlcat_ingest.pipeline.removal.unlisted import silent_writers
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state import session
from mlcat_ingest.pipeline.state.inspection import reset
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession, known_writer_ids
from mlcat_ingest.sources.definitions.file_source import DefinitionsConfig, DefinitionsSource
from mlcat_ingest.sources.feast.source import FeastSource
from mlcat_ingest.workflows.retract import Retraction
from support.fakes import FakeSink
from support.feast import config, registry
from support.recipes import a_recipe

NAME = "definitions"
BASE = f"mlcat.applied.{NAME}"
TABLE = "mlFeatureTableProperties"


@dataclass
class Team:
    """A repository with the recipe `definitions`, whose sources have the same address."""

    folder: Path
    sink: FakeSink
    kind: str = "definitions"
    writer_ids: tuple[str, ...] | None = None
    name: str = NAME
    states: list[int] = field(default_factory=lambda: [0])

    @property
    def url(self) -> str:
        self.folder.mkdir(exist_ok=True)
        return f"sqlite:///{self.folder}/state-{self.states[-1]}.db"

    def loses_its_state(self) -> None:
        self.states.append(len(self.states))

    @property
    def id(self) -> str:
        return known_writer_ids(self.url, self.name)[0]

    def defines(self, *names: str, **more: Any) -> None:
        self.folder.mkdir(exist_ok=True)
        if self.kind == "feast":
            views = [{"spec": {"name": one, "project": "shop", "features": []}} for one in names]
            (self.folder / "registry.db").write_bytes(registry(feature_views=views))
            return
        tables = [{"name": one, "features": [], **more} for one in names]
        (self.folder / "features.yml").write_bytes(
            dumps({"version": 1, "platform": "mlcat", "namespace": "shop", "tables": tables})
        )

    def runs(self, *, full: bool = False, adopt_since_ms: int | None = None) -> Report:
        options = RunOptions(
            a_recipe(self.name, evaluate={"enabled": False}),
            state=StateSession(self.url, StateOptions(self.name, self.writer_ids, full=full)),
            adopt_since_ms=adopt_since_ms,
        )
        report = PipelineRun([self._source()], self.sink, options).execute()
        report.raise_for_failure()
        return report

    def _source(self) -> Any:
        # As `/app/data/registry.db` of two containers, or `path: definitions` of two repositories.
        if self.kind == "feast":
            return FeastSource(
                config(registry=str(self.folder / "registry.db"), server_id="app/data/registry.db")
            )
        return DefinitionsSource(
            DefinitionsConfig.model_validate(
                {"path": self.folder / "features.yml", "server_id": "definitions"}
            )
        )


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink(place="fake://catalog")


@pytest.fixture(params=["definitions", "feast"])
def teams(tmp_path: Path, sink: FakeSink, request: pytest.FixtureRequest) -> tuple[Team, Team]:
    return Team(tmp_path / "one", sink, request.param), Team(tmp_path / "two", sink, request.param)


def live(sink: FakeSink) -> list[str]:
    """Return the names of the live tables."""
    return sorted(
        urn.rpartition(".")[2].rstrip(")")
        for urn, one in sink.stored.items()
        if "mlFeatureTable:" in urn and not one.get("status", {}).get("removed")
    )


def urn_of(sink: FakeSink, name: str) -> str:
    return next(urn for urn in sink.stored if urn.endswith(f"{name})"))


def base_of(sink: FakeSink, name: str) -> str:
    return str(sink.stored[urn_of(sink, name)][TABLE]["customProperties"][BASE])


def test_two_teams_with_one_recipe_name_and_one_address_keep_each_others_tables(
    teams: tuple[Team, Team], sink: FakeSink
) -> None:
    one, two = teams
    one.defines("a", "b")
    two.defines("c", "d")
    for _ in range(3):
        one.runs(full=True)
        two.runs(full=True)
    assert live(sink) == ["a", "b", "c", "d"]
    one.defines("a")
    for _ in range(3):
        one.runs(full=True)
        two.runs(full=True)
    assert live(sink) == ["a", "c", "d"]
    report = one.runs(full=True)
    assert report.notes["other_writer"] == 2
    [sentence] = report.note_examples["other_writer"]
    assert f"writer id {two.id}" in sentence
    assert "--adopt" in sentence
    assert "`writer_id`" in sentence


def test_a_table_that_both_states_have_stays_until_both_lack_it(
    teams: tuple[Team, Team], sink: FakeSink
) -> None:
    one, two = teams
    for team in (one, two):
        team.defines("shared", team.folder.name)
        team.runs(full=True)
    assert writer_id_of(base_of(sink, "shared")) == two.id
    writes = len(sink.writes)
    for team in (one, two, one, two):
        team.runs(full=True)
    assert len(sink.writes) == writes, "the two take turns"
    one.defines("one")
    for _ in range(3):
        one.runs(full=True)
    assert live(sink) == ["one", "shared", "two"]
    two.defines("two")
    for _ in range(3):
        two.runs(full=True)
    assert live(sink) == ["one", "two"]


def test_a_state_made_anew_writes_its_id_on_what_is_listed_and_names_what_is_left(
    tmp_path: Path, sink: FakeSink
) -> None:
    team = Team(tmp_path, sink)
    team.defines("a", "b")
    team.runs()
    lost = team.id
    team.loses_its_state()
    team.defines("a")
    team.runs(full=True)
    team.runs(full=True)
    report = team.runs(full=True)
    assert live(sink) == ["a", "b"]
    assert (writer_id_of(base_of(sink, "a")), writer_id_of(base_of(sink, "b"))) == (team.id, lost)
    assert report.notes["other_writer"] == 1
    assert f"writer id {lost}" in report.note_examples["other_writer"][0]


def test_adopting_takes_over_what_a_lost_state_wrote_for_all_later_runs(
    tmp_path: Path, sink: FakeSink
) -> None:
    team = Team(tmp_path, sink)
    team.defines("a", "b")
    team.runs()
    before_ms = int(time.time() * 1000) - 60_000
    team.loses_its_state()
    team.defines("a")
    team.runs(full=True, adopt_since_ms=before_ms)
    for _ in range(2):
        team.runs(full=True)
    assert live(sink) == ["a", "b"], "the other id has written since"
    after_ms = int(time.time() * 1000) + 60_000
    team.runs(full=True, adopt_since_ms=after_ms)
    report = team.runs(full=True)
    assert live(sink) == ["a"]
    assert "other_writer" not in report.notes


def test_runs_without_a_volume_keep_one_writer_by_its_option(
    tmp_path: Path, sink: FakeSink
) -> None:
    team = Team(tmp_path, sink, writer_ids=("container",))
    team.defines("a", description="old")
    team.runs()
    for _ in range(2):
        team.loses_its_state()
        assert "other_writer" not in team.runs(full=True).notes
    assert writer_id_of(base_of(sink, "a")) == "container"


def test_runs_without_a_volume_and_an_option_say_so(tmp_path: Path, sink: FakeSink) -> None:
    team = Team(tmp_path, sink)
    team.defines("a")
    team.runs()
    team.loses_its_state()
    report = team.runs()
    assert report.notes["other_writer"] == 1
    assert "set `writer_id`" in report.note_examples["other_writer"][0]


def test_an_id_that_is_set_later_takes_the_random_one_over(tmp_path: Path, sink: FakeSink) -> None:
    team = Team(tmp_path, sink)
    team.defines("a", "b")
    team.runs()
    team.writer_ids = ("named",)
    team.defines("a")
    team.runs(full=True)
    report = team.runs(full=True)
    assert live(sink) == ["a"]
    assert "other_writer" not in report.notes
    assert writer_id_of(base_of(sink, "a")) == "named"


def test_what_a_run_without_a_state_wrote_is_of_no_other_writer(
    tmp_path: Path, sink: FakeSink
) -> None:
    team = Team(tmp_path, sink)
    team.defines("a", "b")
    options = RunOptions(a_recipe(NAME, evaluate={"enabled": False}))
    PipelineRun([team._source()], sink, options).execute()
    team.defines("a")
    report = team.runs(full=True)
    assert live(sink) == ["a", "b"]
    assert "other_writer" not in report.notes


def test_a_reset_keeps_the_id(tmp_path: Path, sink: FakeSink) -> None:
    team = Team(tmp_path, sink)
    team.defines("a")
    team.runs()
    before = team.id
    reset(team.url, NAME)
    assert "other_writer" not in team.runs().notes
    assert team.id == before


def test_a_retraction_takes_back_what_its_own_state_wrote(
    teams: tuple[Team, Team], sink: FakeSink, tmp_path: Path
) -> None:
    for team in teams:
        team.defines(team.folder.name)
        team.runs()
    one = teams[0]
    with Retraction(NAME, [one._source()], sink, one.url, tmp_path / "dead") as retraction:
        retraction.plan()
        retraction.execute()
    assert live(sink) == ["two"]
    with Retraction(NAME, [], sink, None, tmp_path / "dead") as by_name:
        by_name.plan()
        by_name.execute()
    assert live(sink) == []


def test_an_entity_of_another_recipe_is_not_removed_with_ours(
    teams: tuple[Team, Team], sink: FakeSink
) -> None:
    one, two = teams
    two.name = "staging"
    for team in (one, two):
        team.defines("shared", team.folder.name)
    one.runs()
    report = two.runs()
    assert report.notes["same_store"] >= 1
    assert "by recipe 'definitions'" in report.note_examples["same_store"][0]
    assert "`instance`" in report.note_examples["same_store"][0]
    two.defines("two")
    for _ in range(3):
        two.runs(full=True)
    assert live(sink) == ["one", "shared", "two"]
    custom = sink.stored[urn_of(sink, "shared")][TABLE]["customProperties"]
    assert BASE in custom
    assert "mlcat.applied.staging" not in custom
    one.defines("one")
    for _ in range(3):
        one.runs(full=True)
    assert live(sink) == ["one", "two"]


@pytest.mark.parametrize("for_good", [False, True])
def test_what_another_tool_removed_comes_back_though_nothing_changed(
    teams: tuple[Team, Team], sink: FakeSink, *, for_good: bool
) -> None:
    team = teams[0]
    team.defines("a", "b")
    team.runs()
    urn = urn_of(sink, "b")
    if for_good:
        del sink.stored[urn]
    else:
        sink.put(urn, "status", {"removed": True})
    report = team.runs()
    if for_good and "b" not in live(sink):
        assert report.notes["removed_by_others"] == 1
        report = team.runs()
    assert live(sink) == ["a", "b"]
    assert "removed_by_others" not in team.runs().notes


def test_what_another_tool_deleted_for_good_is_noted_and_written_by_the_next_pass(
    teams: tuple[Team, Team], sink: FakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SAMPLE", 0)
    team = teams[0]
    team.defines("a", "b", "c")
    team.runs()
    gone, hidden = urn_of(sink, "b"), urn_of(sink, "c")
    for urn in [*sink.stored]:
        sink.put(urn, key_aspect_name(entity_type_of(urn)), {})
    del sink.stored[gone]
    sink.put(hidden, "status", {"removed": True})
    sink.not_indexed = {urn_of(sink, "a")}
    report = team.runs()
    assert sorted(report.note_examples["removed_by_others"]) == sorted(
        [
            f"{gone}: deleted, the next pass writes it again",
            f"{hidden}: soft-deleted, and restored by this run",
        ]
    )
    assert live(sink) == ["a", "c"]
    assert "removed_by_others" not in team.runs().notes
    assert live(sink) == ["a", "b", "c"]


def test_only_what_no_search_finds_is_read_for_its_status(
    teams: tuple[Team, Team], sink: FakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SAMPLE", 0)
    team = teams[0]
    team.defines("a", "b")
    team.runs()
    sink.not_indexed = {urn_of(sink, "b")}
    sink.reads.clear()
    team.runs()
    times = Counter(urn for urns in sink.reads for urn in urns)
    assert times[urn_of(sink, "b")] > times[urn_of(sink, "a")]


def test_a_writer_is_silent_if_nothing_of_its_id_was_written_since(
    tmp_path: Path, sink: FakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    team = Team(tmp_path, sink)
    team.defines("a", "b")
    team.runs()
    urns = [urn_of(sink, name) for name in "ab"]
    last_ms = max(numbers_in(one[TABLE].stamp)[1] for one in sink.read_many(urns, [TABLE]).values())
    writer = Writer(NAME, "mine")
    assert silent_writers(sink, writer, last_ms) == set()
    assert f"writer id {team.id} of 'definitions': not taken over" in caplog.text
    caplog.clear()
    assert silent_writers(sink, writer, last_ms + 1) == {team.id}
    assert caplog.text.rstrip().endswith("taken over")
    assert silent_writers(sink, Writer(NAME, team.id), last_ms + 1) == set()
    assert silent_writers(sink, Writer("another", "mine"), last_ms + 1) == set()


def test_an_aspect_of_unknown_age_was_written_just_now(tmp_path: Path, sink: FakeSink) -> None:
    numbers = [numbers_in(stamp) for stamp in ("1 5 run", "1 x", "1", None)]
    assert numbers == [(1, 5), (0, 0), (0, 0), (0, 0)]
    team = Team(tmp_path, sink)
    team.defines("a")
    team.runs()
    sink.tells_versions = False
    assert silent_writers(sink, Writer(NAME, "mine"), 2**63) == set()
    assert silent_writers(sink, Writer(NAME, "mine"), 2**63 + 1) == {team.id}
