"""Catalog and state of an earlier release, ingested into by this one: names, edits and bases stay.

The earlier release kept what is known of a version on the model of the version's run, and gave only
those versions a model of their own that had no run.
"""

import json
import sqlite3
import tarfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, SUB_TYPES, VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import OWNERSHIP
from mlcat_ingest.metadata.reserved import APPLIED_PREFIX
from mlcat_ingest.pipeline.merge.applied import decode
from mlcat_ingest.pipeline.state.partitions import PartitionKey

pytestmark = [pytest.mark.integration, pytest.mark.smoke]

ARCHIVE = Path(__file__).parents[2] / "data" / "upgrade" / "before_versions.tar.xz"
RECIPES = ("night", "eu", "shared")
ODD = "a%2Cb %28c%29 100%25"
"""The name `a,b (c) 100%` in a URN."""

NEW_VERSIONS = {f"{name}_{number}" for name in ("scorer", "twice") for number in (1, 2)} | {
    f"{ODD}_1"
}
"""The versions of the store whose runs are known. `scorer_3` has none."""

ADDED = {SUB_TYPES, BROWSE_PATHS_V2, OWNERSHIP}
WITH_THE_USER = {
    "mlModelProperties": ("tags", "created"),
    VERSION_PROPERTIES: ("sourceCreatedTimestamp", "isLatest"),
}

MOVED = {
    "scorer": ("mlflow.aliases", "version.v"),
    "twice": ("mlflow.aliases", "version.twice:1.v", "version.twice:2.v"),
    ODD: ("mlflow.aliases", "version.v"),
}
"""Custom properties of runs' models that said something of a version of a registered model."""

Contents = dict[str, dict[str, Any]]


def model(name: str, env: str = "PROD") -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name},{env})"


def unpack(folder: Path) -> None:
    """Unpack the archive, as if the folder had always been `folder`."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    place = f"sqlite:///{folder}/catalog.db"
    with closing(sqlite3.connect(folder / ".mlcat" / "state.db")) as state, state:
        parts = "SELECT id, recipe, source, instance FROM state_part"
        for number, recipe, source, instance in state.execute(parts).fetchall():
            key = PartitionKey(recipe, place, source, instance)
            moved = "UPDATE state_part SET id = ?, sink = ? WHERE id = ?"
            state.execute(moved, (key.id, place, number))
            records = "UPDATE state_record SET part_id = ? WHERE part_id = ?"
            state.execute(records, (key.id, number))
        state.execute("UPDATE state_identity SET sink = ?", (place,))


def contents(folder: Path) -> Contents:
    """Return every stored aspect of every entity, read without any code of the catalog."""
    found: Contents = {}
    query = "SELECT urn, aspect, value FROM aspect JOIN entity ON entity.id = aspect.entity_id"
    with closing(sqlite3.connect(folder / "catalog.db")) as database:
        for urn, aspect, value in database.execute(query):
            found.setdefault(urn, {})[aspect] = json.loads(value)
    return found


def ingest(folder: Path, recipe: str, *options: str) -> dict[str, Any]:
    report = folder / "report.json"
    code = call([str(folder / f"{recipe}.yml"), "-q", "--report", str(report), *options])
    found: dict[str, Any] = json.loads(report.read_text())
    assert code == found["exit_code"]
    return found


@dataclass(frozen=True)
class Upgrade:
    """The catalog before and after the first runs of this release, and their reports."""

    folder: Path
    before: Contents
    after: Contents
    reports: Mapping[str, dict[str, Any]]
    again: Mapping[str, dict[str, Any]]

    def custom(self, urn: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the custom properties of an entity before and after."""
        kind = f"{urn.split(':')[2]}Properties"
        before, after = (one.get(urn, {}).get(kind, {}) for one in (self.before, self.after))
        return before.get("customProperties", {}), after.get("customProperties", {})


@pytest.fixture(scope="module")
def upgrade(tmp_path_factory: pytest.TempPathFactory) -> Upgrade:
    folder = tmp_path_factory.mktemp("upgrade")
    unpack(folder)
    before = contents(folder)
    reports = {name: ingest(folder, name) for name in RECIPES}
    after = contents(folder)
    again = {name: ingest(folder, name, "--full") for name in RECIPES}
    return Upgrade(folder, before, after, reports, again)


def test_everything_arrives_at_once_and_nothing_changes_from_then_on(upgrade: Upgrade) -> None:
    assert [one["exit_code"] for one in upgrade.reports.values()] == [0, 0, 0]
    assert [one["proposals_sent"] for one in upgrade.again.values()] == [0, 0, 0]
    assert contents(upgrade.folder) == upgrade.after


def test_every_urn_stays_and_only_versions_that_had_no_model_are_new(upgrade: Upgrade) -> None:
    assert upgrade.before.keys() <= upgrade.after.keys()
    new = upgrade.after.keys() - upgrade.before.keys()
    sets = {urn for urn in new if urn.startswith("urn:li:versionSet:")}
    expected = {model(f"{prefix}{one}") for one in NEW_VERSIONS for prefix in ("", "eu.")}
    assert new - sets == expected
    rewritten = {urn for urn in upgrade.before if urn.endswith("_1,STG)")}
    versions = expected | rewritten
    named = {upgrade.after[urn][VERSION_PROPERTIES]["versionSet"] for urn in versions}
    # The sets had their names before; the catalog computed nothing of them then.
    assert sets == named


def without_added(aspects: dict[str, Any]) -> dict[str, Any]:
    """Return aspects without those that the earlier release did not write, and without our base.

    It wrote no plain tags, did not know who made a version, and began the names of a version's
    tags with `version.`.
    """
    left = {name: dict(value) for name, value in aspects.items() if name not in ADDED}
    for name, value in left.items():
        for field in WITH_THE_USER.get(name, ()):
            value.pop(field, None)
        if "customProperties" in value:
            value["customProperties"] = {
                key.removeprefix("version."): text
                for key, text in value["customProperties"].items()
                if not key.startswith(APPLIED_PREFIX)
            }
    return left


def test_with_the_names_of_datahubs_source_only_kinds_and_folders_come(upgrade: Upgrade) -> None:
    shared = {urn for urn in upgrade.before if urn.endswith(",STG)")}
    assert model("scorer_1", "STG") in shared
    assert upgrade.after[model("scorer_1", "STG")][SUB_TYPES] == {"typeNames": ["Model Version"]}
    for urn in shared:
        assert without_added(upgrade.before[urn]) == without_added(upgrade.after[urn])


def test_nothing_is_removed(upgrade: Upgrade) -> None:
    before, after = (
        {urn for urn, one in each.items() if one.get("status", {}).get("removed")}
        for each in (upgrade.before, upgrade.after)
    )
    assert before == after


def test_what_people_wrote_is_still_there(upgrade: Upgrade) -> None:
    edits = json.loads((upgrade.folder / "edits.json").read_text())
    assert edits.keys() == {urn for urn in upgrade.before if urn.startswith("urn:li:ml")}
    lost = [
        (urn, aspect)
        for urn, aspects in edits.items()
        for aspect, entries in aspects.items()
        if not holds(upgrade.after[urn].get(aspect), entries)
    ]
    assert lost == []


def holds(value: Any, entries: Any) -> bool:
    """Return whether `value` has all of `entries`."""
    if isinstance(entries, dict):
        return isinstance(value, dict) and all(holds(value.get(k), v) for k, v in entries.items())
    if isinstance(entries, list):
        return isinstance(value, list) and all(any(holds(v, e) for v in value) for e in entries)
    return bool(value == entries)


def test_no_base_is_lost(upgrade: Upgrade) -> None:
    bases = [
        (urn, key)
        for urn in upgrade.before
        for key in upgrade.custom(urn)[0]
        if key.startswith(APPLIED_PREFIX)
    ]
    assert len(bases) >= len([urn for urn in upgrade.before if urn.startswith("urn:li:ml")])
    assert all(decode(upgrade.custom(urn)[1].get(key)) is not None for urn, key in bases)
    assert [one["without_base"] for one in upgrade.reports.values()] == [0, 0, 0]


def test_facts_of_a_version_go_from_the_runs_model_to_the_versions_own(upgrade: Upgrade) -> None:
    of_runs = {
        upgrade.custom(model(f"{prefix}{one}"))[1]["mlflow.run_model"]
        for one in NEW_VERSIONS
        for prefix in ("", "eu.")
    }
    changed = {
        urn
        for urn, aspects in upgrade.before.items()
        if without_added(aspects) != without_added(upgrade.after[urn])
    }
    # The catalog found out that these are the latest of their sets.
    assert changed - {model("scorer_3"), model("eu.scorer_3")} == of_runs
    for urn in of_runs:
        before, after = upgrade.before[urn], upgrade.after[urn]
        groups = before["mlModelProperties"]["groups"]
        (registered,) = (group for group in groups if "registered:" in group)
        assert after["mlModelProperties"]["groups"] == [one for one in groups if one != registered]
        name = registered.split("registered:")[1].removesuffix(",PROD)")
        had, has = upgrade.custom(urn)
        assert had.keys() - has.keys() == had.keys() & {*MOVED[name]}
        described = upgrade.after[registered]["mlModelGroupProperties"]["description"]
        assert described in before["mlModelProperties"]["description"]
        assert "description" not in after["mlModelProperties"]
        assert VERSION_PROPERTIES not in after
        if (version := before.get(VERSION_PROPERTIES)) is not None:
            prefix = "eu." if ",eu." in urn else ""
            own = upgrade.after[model(f"{prefix}{name}_{version['version']['versionTag']}")]
            assert {**own[VERSION_PROPERTIES], **version} == own[VERSION_PROPERTIES]
            assert registered in own["mlModelProperties"]["groups"]


@pytest.mark.parametrize("prefix", ["", "eu."])
def test_aliases_stages_and_tags_are_on_the_versions(upgrade: Upgrade, prefix: str) -> None:
    for name in MOVED:
        custom = upgrade.custom(model(f"{prefix}{name}_1"))[1]
        assert "@champion" in custom["mlflow.aliases"]
        assert custom["v"] == "1"
    tags = upgrade.after[model(f"{prefix}scorer_2")]["globalTags"]["tags"]
    assert {"tag": "urn:li:tag:mlflow_production"} in tags


@pytest.mark.parametrize("prefix", ["", "eu."])
def test_the_latest_version_is_one_that_was_there_before(upgrade: Upgrade, prefix: str) -> None:
    newest = upgrade.after[model(f"{prefix}scorer_3")][VERSION_PROPERTIES]
    assert newest["isLatest"] is True
    assert upgrade.after[newest["versionSet"]]["versionSetProperties"]["latest"] == model(
        f"{prefix}scorer_3"
    )
    before = upgrade.before[model(f"{prefix}scorer_3")]
    assert {**before[VERSION_PROPERTIES], "isLatest": True} == newest


@pytest.mark.parametrize("change", ["env: DEV", "naming: {version: '{name}-{version}'}"])
def test_other_names_than_the_earlier_release_gave_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    unpack(tmp_path)
    before = contents(tmp_path)
    recipe = tmp_path / "night.yml"
    text = recipe.read_text()
    recipe.write_text(text.replace('mlflow.db"', f'mlflow.db", {change}'))
    assert call([str(recipe), "-q"]) == 2
    assert "--accept-renaming" in capsys.readouterr().err
    assert contents(tmp_path) == before
