"""From a recipe to what a DataHub server sees of it, and what a run makes of its answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support.definitions import FeatureWorld, definitions
from support.gms import V0_15, V1_0, V1_6, V1_7, GmsProfile, RunningGms, running_gms


@dataclass(frozen=True)
class World:
    """A server, and a recipe of many features that writes to it."""

    gms: RunningGms
    features: FeatureWorld

    def define(self, count: int, **table: Any) -> None:
        """Let one table, of which more may be said, have `count` features."""
        named = [{"name": f"f{n:03}", "type": "COUNT"} for n in range(count)]
        self.features.write(definitions(tables=[{"name": "wide", "features": named, **table}]))

    def ingest(self, *, gate: str | None = None, **keys: Any) -> dict[str, Any]:
        """Run the recipe with further `keys`; return its report."""
        options = [] if gate is None else ["--fail-on-tests", gate]
        recipe = self.features.recipe(self.features.source(), **keys)
        code = self.features.run(recipe, *options)
        report: dict[str, Any] = json.loads((self.features.folder / "report.json").read_text())
        assert report["exit_code"] == code
        return report

    def letters(self) -> list[dict[str, Any]]:
        """Return the dead letters of the last run."""
        path = self.features.folder / ".mlcat" / "features.dead.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


Start = Callable[..., Any]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    @contextmanager
    def started(profile: GmsProfile = V1_6, **changes: Any) -> Iterator[World]:
        with running_gms(tmp_path / "gms.db", replace(profile, **changes)) as gms:
            yield World(gms, FeatureWorld(tmp_path, gms.url))

    return started


@pytest.mark.parametrize("version", [None, "v1.7.0"])
@pytest.mark.parametrize("push", [None, False])
def test_every_evaluation_says_whether_to_push_whatever_the_server_is(
    start: Start, version: str | None, *, push: bool | None
) -> None:
    tests = ["urn:li:test:one"]
    evaluate = {"test_urns": tests} if push is None else {"test_urns": tests, "should_push": push}
    with start(version=version, evaluates=True) as world:
        world.define(3)
        assert world.ingest(evaluate=evaluate)["exit_code"] == 0
        asked = [request.json() for request in world.gms.calls("/test")]
    assert asked
    for one in asked:
        expected = push is None
        assert (one["shouldPush"], one["push"]) == (expected, expected)
        assert (one["testUrns"], one["tests"]) == (tests, tests)


def test_on_a_server_without_evaluation_nothing_counts_as_passed(start: Start) -> None:
    with start(evaluates=False, version=None) as world:
        world.define(3)
        report = world.ingest(evaluate={"where": "service"})
        gated = world.ingest(gate=".*", evaluate={"where": "service"})
    evaluation = report["evaluation"]
    assert (report["exit_code"], evaluation["evaluated"], evaluation["passing"]) == (0, 0, 0)
    assert "the service has no metadata tests (404" in evaluation["not_evaluated"]
    assert (gated["exit_code"], gated["gate"]["passed"]) == (3, False)
    assert "404" in gated["gate"]["not_evaluated"][0]


# --- faults and permissions -----------------------------------------------------------------------


@pytest.mark.parametrize("profile", [V1_6, V1_7], ids=lambda profile: str(profile.version))
def test_a_database_that_gives_up_once_costs_no_record(start: Start, profile: GmsProfile) -> None:
    with start(profile) as world:
        world.define(60)
        world.gms.fail_writes(1)
        report = world.ingest()
        assert (report["exit_code"], report["dead_letters"], report["conflicts"]) == (0, 0, 0)
        assert report["entities"]["mlFeature"]["created"] == 60
        first, second = world.gms.calls("/aspects", "ingestProposalBatch")[:2]
        assert first.body == second.body


@pytest.mark.parametrize(
    ("denies", "privilege"), [("forbids", "Edit Entity"), ("denies_reads", "View Entity Page")]
)
def test_a_urn_that_is_denied_is_refused_alone_and_by_name(
    start: Start, denies: str, privilege: str
) -> None:
    bad = "urn:li:mlFeature:(rides.wide,f041)"
    with start(**{denies: bad.__eq__}) as world:
        world.define(60)
        report = world.ingest()
        assert report["exit_code"] == 4
        counts = report["entities"]["mlFeature"]
        assert (counts["created"], counts["rejected"]) == (59, 1)
        assert report["rejected_examples"][0]["reference"] == bad
        assert f"lacks {privilege}" in report["rejected_examples"][0]["reason"]
        assert {letter["urn"] for letter in world.letters()} == {bad}
        assert world.gms.store.exists([bad]) == set()
        assert len(world.gms.calls("/aspects")) <= 6
        # The other entities show that the token may do so in general.
        again = world.ingest()
        assert (again["exit_code"], again["proposals_sent"]) == (4, int(denies == "forbids"))


def test_a_token_that_may_write_nothing_ends_the_run(start: Start) -> None:
    with start(forbids=lambda _: True) as world:
        world.define(900)
        report = world.ingest()
        assert (report["exit_code"], report["failure"]["kind"]) == (1, "NotAuthorizedError")
        assert "lacks Edit Entity" in report["failure"]["message"]
        assert len(world.gms.calls("/aspects")) <= 30


def test_a_run_report_that_may_not_be_written_is_a_note(start: Start) -> None:
    with start(forbids_run_reports=True) as world:
        world.define(3)
        report = world.ingest(report_to_catalog=True)
        assert (report["exit_code"], report["dead_letters"]) == (0, 0)
        assert report["entities"]["mlFeature"]["created"] == 3
        [example] = report["note_examples"]["run_not_listed"]
        assert "lacks Edit Entity" in example
        for request in world.gms.calls("/aspects"):
            types = {one["entityType"].startswith("dataHub") for one in request.proposals}
            assert len(types) == 1


def test_an_aspect_that_is_too_large_is_sent_once(start: Start) -> None:
    with start(aspect_bytes=3_000) as world:
        world.define(3, description="large " * 1_000, tags={"team": "drivers"})
        report = world.ingest()
        assert report["exit_code"] == 4
        assert report["entities"]["mlFeatureTable"]["rejected"] == 1
        assert report["entities"]["mlFeature"]["created"] == 3
        large = [one.body for one in world.gms.calls("/aspects") if b"large large" in one.body]
        assert len(set(large)) == len(large) <= 3


# --- the release ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "version", "code", "dropped"),
    [
        (V0_15, "v0.15.0", 1, {"mlFeatureTable: subTypes"}),
        (V1_0, "v1.0.0", 0, {"mlFeatureTable: subTypes"}),
        (V1_6, None, 0, set()),
    ],
    ids=["too old", "the smallest", "unknown"],
)
def test_a_release_below_the_smallest_fails_the_check_and_warns_in_a_run(
    start: Start,
    profile: GmsProfile,
    version: str | None,
    code: int,
    dropped: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = tmp_path / "report.json"
    with start(profile, version=version) as world:
        world.define(2)
        recipe = world.features.recipe(world.features.source())
        assert call([recipe, "--report", str(report)]) == (4 if dropped else 0)
        assert json.loads(report.read_text())["dropped"].keys() == dropped
        words = "DataHub v0.15.0 is older than v1.0.0, the oldest supported release"
        assert (words in capsys.readouterr().err) == bool(code)
        assert call(["check", recipe, "--json"]) == code
        findings = json.loads(capsys.readouterr().out)["findings"]
    warned = [one for one in findings if one["outcome"] == "warning" and one["hint"]]
    named = {name for name in dropped if any(name in one["detail"] for one in warned)}
    assert named == (set() if code else dropped)
    failed = [one for one in findings if one["outcome"] == "failed"]
    assert [words in json.dumps(one) for one in failed] == [True] * code
