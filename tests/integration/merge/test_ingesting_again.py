"""What users of other connectors miss most, on a real MLflow server: ingesting again.

Others' entries survive a second ingest, what MLflow drops goes, and neither depends on the state
file.
"""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from support import venvs
from support.catalog_server import running_catalog
from support.fakes import group_urn
from support.mlflow_server import running

pytestmark = [pytest.mark.integration, pytest.mark.smoke]

NAMING = Naming()
HOME = "mlModelProperties"
FEATURE = "urn:li:mlFeature:(somebodys,age)"
GOLD = {"tag": "urn:li:tag:gold"}
ANN = {"owner": "urn:li:corpuser:ann", "type": "DATAOWNER"}
OURS, THEIRS = NAMING.group("fraud").urn, group_urn("theirs")


@dataclass(frozen=True)
class World:
    mlflow: str
    catalog: str
    folder: Path

    def api(self, path: str, method: str = "POST", **body: Any) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.mlflow}/api/2.0/mlflow/{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request) as reply:
            found: dict[str, Any] = json.loads(reply.read())
            return found

    def ingest(self, *options: str) -> dict[str, Any]:
        recipe, report = self.folder / "again.yml", self.folder / "report.json"
        recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{self.mlflow}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.catalog}', token: ''}}}}\n"
        )
        assert call([str(recipe), "-q", "--report", str(report), *options]) == 0
        reported: dict[str, Any] = json.loads(report.read_text())
        return reported

    def forget(self) -> None:
        shutil.rmtree(self.folder / ".mlcat")

    def aspects(self, run_id: str) -> dict[str, Any]:
        return self._aspects(NAMING.model(run_id).urn)

    def version(self, number: str) -> dict[str, Any]:
        return self._aspects(NAMING.version("m", number).urn)

    def _aspects(self, urn: str) -> dict[str, Any]:
        names = [HOME, "globalTags", "ownership", "versionProperties", "status"]
        with CatalogClient(self.catalog, "") as client:
            found = client.read_many([urn], names)[urn]
        return {name: one.value for name, one in found.items()}

    def emit(self, run_id: str, **aspects: Any) -> None:
        urn = NAMING.model(run_id).urn
        with CatalogClient(self.catalog, "") as client:
            assert client.write([Proposal(urn, *one) for one in aspects.items()]) == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with (
        running(venvs.OURS, tmp_path / "store") as mlflow,
        running_catalog(tmp_path / "catalog.db") as catalog,
    ):
        yield World(mlflow.url, catalog.url, tmp_path)


def a_run(world: World, experiment_id: str, user: str) -> str:
    started: dict[str, Any] = {
        "experiment_id": experiment_id,
        "user_id": user,
        "start_time": 1_700_000_000_000,
    }
    run: dict[str, Any] = world.api("runs/create", **started)["run"]["info"]
    for key, value in {"team": "risk", "mlflow.note.content": "a note"}.items():
        world.api("runs/set-tag", run_id=run["run_id"], key=key, value=value)
    world.api("runs/log-parameter", run_id=run["run_id"], key="eta", value="0.1")
    world.api("runs/update", run_id=run["run_id"], status="FINISHED", end_time=1_700_000_060_000)
    run_id: str = run["run_id"]
    return run_id


def a_registered_pair(world: World) -> tuple[str, str]:
    experiment = world.api("experiments/create", name="fraud")["experiment_id"]
    first, second = (a_run(world, experiment, "bob") for _ in range(2))
    world.api("registered-models/create", name="m")
    for run_id in (first, second):
        world.api("model-versions/create", name="m", source=f"runs:/{run_id}/m", run_id=run_id)
    world.api("registered-models/alias", name="m", alias="champion", version="1")
    move_stage(world, "Production")
    return first, second


def move_stage(world: World, stage: str) -> None:
    world.api(
        "model-versions/transition-stage",
        name="m",
        version="1",
        stage=stage,
        archive_existing_versions=False,
    )


def somebody_works_on(world: World, run_id: str) -> None:
    held = world.aspects(run_id)
    properties = dict(held[HOME])
    properties["groups"] = [one for one in properties["groups"] if one != OURS] + [THEIRS]
    properties["mlFeatures"] = [FEATURE]
    properties["customProperties"] = {**properties["customProperties"], "reviewed": "yes"}
    world.emit(
        run_id,
        globalTags={"tags": [GOLD]},
        ownership={"owners": [*held["ownership"]["owners"], ANN]},
        **{HOME: properties},
    )


def test_others_entries_survive_and_what_mlflow_drops_goes(world: World) -> None:
    first, second = a_registered_pair(world)
    world.ingest()
    before = world.aspects(first)
    version = world.version("1")
    assert version["globalTags"] == {"tags": [{"tag": "urn:li:tag:mlflow_production"}]}
    assert version["versionProperties"]["aliases"] == [{"versionTag": "champion"}]
    assert before[HOME]["description"] == "a note"

    somebody_works_on(world, first)
    world.api("registered-models/alias", name="m", alias="champion", version="2")
    move_stage(world, "None")
    world.api("runs/delete-tag", run_id=first, key="team")
    world.api("runs/delete-tag", run_id=first, key="mlflow.note.content")
    world.api("runs/set-tag", run_id=first, key="late", value="edit")
    world.api("runs/delete", run_id=second)
    report = world.ingest("--full")

    after = world.aspects(first)
    custom = after[HOME]["customProperties"]
    assert "team" not in custom
    assert (custom["late"], custom["reviewed"]) == ("edit", "yes")
    assert "description" not in after[HOME]
    assert set(after[HOME]["groups"]) == {*before[HOME]["groups"], THEIRS}
    assert after[HOME]["mlFeatures"] == [FEATURE]
    assert after["globalTags"] == {"tags": [GOLD]}
    assert after["ownership"]["owners"] == [*before["ownership"]["owners"], ANN]
    assert world.version("1")["globalTags"] == {"tags": []}
    for number, aliases, latest in (("1", [], False), ("2", [{"versionTag": "champion"}], True)):
        of_version = world.version(number)["versionProperties"]
        assert (of_version["aliases"], of_version["isLatest"]) == (aliases, latest)
    assert "versionProperties" not in after
    assert world.aspects(second)["status"] == {"removed": True}
    assert (report["without_base"], report["conflicts"], report["unverified"]) == (0, 0, 0)
    assert report["entities"]["mlModel"]["removed"] == 1

    world.forget()
    again = world.ingest()
    assert (again["proposals_sent"], again["without_base"]) == (0, 0)
    assert world.aspects(first) == after


def test_a_version_that_is_gone_is_removed_and_a_run_comes_back(world: World) -> None:
    first, second = a_registered_pair(world)
    world.api("runs/delete", run_id=second)
    world.ingest()
    assert world.aspects(second)["status"] == {"removed": True}
    for version in ("1", "2"):
        world.api("model-versions/delete", "DELETE", name="m", version=version)
    world.api("runs/restore", run_id=second)
    world.forget()
    world.ingest()
    assert [world.version(number)["status"] for number in "12"] == [{"removed": True}] * 2
    assert "mlflow.versions" not in world.aspects(first)[HOME]["customProperties"]
    assert world.aspects(first)[HOME]["groups"] == [OURS]
    assert world.aspects(second)["status"] == {"removed": False}


@pytest.mark.parametrize("forgets", [False, True])
def test_an_upsert_that_wipes_our_base_costs_one_union_only_without_state(
    world: World, *, forgets: bool
) -> None:
    first, _ = a_registered_pair(world)
    world.ingest()
    ours = world.aspects(first)[HOME]["customProperties"]
    kept = {key: value for key, value in ours.items() if key == "team"}
    theirs = {"groups": [THEIRS], "customProperties": {**kept, "theirs": "x"}}
    world.emit(first, **{HOME: theirs})
    world.api("runs/delete-tag", run_id=first, key="team")
    if forgets:
        world.forget()
    report = world.ingest("--full")
    assert report["without_base"] == forgets
    after = world.aspects(first)
    assert ("team" in after[HOME]["customProperties"]) == (forgets and bool(kept))
    assert after[HOME]["groups"][0] == THEIRS
    assert OURS in after[HOME]["groups"]
    assert after[HOME]["customProperties"]["theirs"] == "x"
    assert world.ingest("--full")["without_base"] == 0
