"""The embedded catalog and a DataHub server hold the same after the same runs."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support.catalog_store import put
from support.gms import V1_0, V1_6, V1_7, GmsProfile
from support.gms_worlds import NAMING, Past, World, differences, gms_world, plain_world
from support.recipes import accuracy_test

LAGGING = replace(V1_6, index_refresh_s=math.inf)
PROFILES = {
    "v1.0, if it stored all": replace(V1_0, lacks=frozenset()),
    "v1.7": V1_7,
    "an index that lags": LAGGING,
    "a replica that lags": replace(V1_7, replica_s=0.2),
    "aspects without a version": replace(V1_6, numbers_first_versions=False),
}
Story = Callable[[World], None]


def tell(folder: Path, past: Past, story: Story, profile: GmsProfile) -> dict[str, dict[str, Any]]:
    """Let the same happen to both catalogs, and return what both hold at the end."""
    with plain_world(folder / "plain", past) as plain:
        story(plain)
        expected = plain.contents()
    with gms_world(folder / "gms", past, profile) as gms:
        story(gms)
        assert differences(expected, gms.contents()) == []
        assert [one["exit_code"] for one in gms.reports] == [
            one["exit_code"] for one in plain.reports
        ]
    return expected


def versions(contents: dict[str, dict[str, Any]]) -> dict[str, tuple[bool, bool, list[str]]]:
    """Return of each version whether it is removed, and the latest of its set; and its aliases."""
    return {
        urn.split(",")[1]: (
            aspects.get("status", {}).get("removed", False),
            version["isLatest"],
            [alias["versionTag"] for alias in version.get("aliases", [])],
        )
        for urn, aspects in contents.items()
        if (version := aspects.get("versionProperties")) is not None
    }


def succeed(report: dict[str, Any]) -> None:
    assert report["exit_code"] == 0, report["failures"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_main_job(tmp_path: Path, past: Past, profile: GmsProfile) -> None:
    def story(world: World) -> None:
        succeed(world.ingest("first"))
        succeed(world.ingest("first"))
        world.catch_up()
        succeed(world.ingest("first", "--full"))

    held = tell(tmp_path, past, story, profile)
    assert {NAMING.model(past.runs[name]).urn for name in ("a", "b", "c")} < held.keys()
    assert versions(held) == {
        f"{name}_{number}": (False, number == 4, ["champion"] if number == 1 else [])
        for name in ("scorer", "retired")
        for number in (1, 2, 3, 4)
    }


def test_removal_behind_superseded_versions(tmp_path: Path, past: Past) -> None:
    def story(world: World) -> None:
        succeed(world.ingest("first"))
        world.catch_up()
        # Without state it is the catalog alone that lists what is ours.
        shutil.rmtree(world.folder / ".mlcat")
        succeed(world.ingest("less", "--full", more="limits: {max_removed_ratio: 1.0}\n"))

    held = tell(tmp_path, past, story, LAGGING)
    removed = {urn for urn, one in held.items() if one.get("status", {}).get("removed")}
    assert NAMING.model(past.runs["b"]).urn in removed
    assert {name for name, (is_removed, _, _) in versions(held).items() if is_removed} == {
        *("retired_1", "retired_2", "retired_3", "retired_4"),
        "scorer_1",
    }


def test_retract(tmp_path: Path, past: Past) -> None:
    def story(world: World) -> None:
        succeed(world.ingest("first"))
        put(world.store, world.model("c"), globalTags={"tags": [{"tag": "urn:li:tag:theirs"}]})
        world.catch_up()
        assert call(["retract", world.recipe, "--yes"]) == 0

    held = tell(tmp_path, past, story, LAGGING)
    live = {urn for urn, one in held.items() if not one.get("status", {}).get("removed")}
    assert NAMING.model(past.runs["c"]).urn in live


def gate(world: World) -> dict[str, Any]:
    """Ingest before a gate that some models fail."""
    tests = world.folder / "tests.yml"
    tests.write_text(accuracy_test(0.85))
    assert call(["catalog", "tests", "push", str(tests), "--server", world.url]) == 0
    return world.ingest("first", "--fail-on-tests", "accuracy")


def results_in(contents: dict[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the type of the result of each test, by entity."""
    return {
        urn: {
            one["test"]: one["type"]
            for side in ("passing", "failing")
            for one in aspects["testResults"].get(side, [])
        }
        for urn, aspects in contents.items()
        if "testResults" in aspects
    }


def test_without_an_evaluate_endpoint_the_client_evaluates(tmp_path: Path, past: Past) -> None:
    with plain_world(tmp_path / "plain", past) as plain:
        gate(plain)
        expected = plain.contents()
    with gms_world(tmp_path / "gms", past, V1_6) as gms:
        report = gate(gms)
        held = gms.contents()
    assert report["exit_code"] == 3
    assert report["evaluation"]["where"] == "client"
    assert [one for one in differences(expected, held) if one[1] != "testResults"] == []
    assert results_in(held) == results_in(expected) != {}
