"""Two ingests of a real MLflow server, people and programs at work in between.

Afterwards the catalog holds what MLflow says, as a first ingest into an empty catalog writes it,
and beside that what somebody added, and nothing else.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_checks import everything
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import feature, group
from support.cli import report_of
from support.fault_world import assert_sums
from support.mlflow_server import MlflowServer, running
from support.seeded_store import SeededStore, new_seeded_database
from support.venvs import OURS

PERSON = "urn:li:corpuser:somebody"
NAMING = Naming()
NEW_NAME = "churn, renamed"
BOOKKEEPING = ("mlcat.applied.", "mlcat.renamed_to", "mlcat.copied_to")


@dataclass
class World:
    folder: Path
    mlflow: MlflowServer
    catalog: RunningCatalog
    made: SeededStore

    def ingest(
        self, *options: str, name: str = "trust", catalog: RunningCatalog | None = None
    ) -> Any:
        recipe = self.folder / f"{name}.yml"
        recipe.write_text(
            "name: trust\nwriter_id: trust\n"
            f"source: {{type: mlflow, config: {{tracking_uri: '{self.mlflow.url}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{(catalog or self.catalog).url}'}}}}\n"
            f"state: {{url: 'sqlite:///{name}.db'}}\n"
        )
        found = report_of(recipe, *options)
        assert_sums(found)
        return found

    def model(self, label: str) -> str:
        return NAMING.model(self.made.runs[label]).urn


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SeededStore]:
    """Give a store with what real ones hold, which worlds copy, and what is in it."""
    database = tmp_path_factory.mktemp("origin") / "mlflow.db"
    made = new_seeded_database(database)
    with mlflow_client(f"sqlite:///{database}") as client:
        for number in range(3):
            run = client.create_run(
                made.experiments["churn"], run_name=f"more {number}", tags={"mlflow.user": "ada"}
            )
            client.set_terminated(run.info.run_id)
            made.runs[f"more {number}"] = run.info.run_id
    return database, made


@pytest.fixture
def world(tmp_path: Path, origin: tuple[Path, SeededStore]) -> Iterator[World]:
    database, made = origin
    (tmp_path / "store").mkdir()
    shutil.copy(database, tmp_path / "store" / "mlflow.db")
    with (
        running(OURS, tmp_path / "store") as mlflow,
        running_catalog(tmp_path / "catalog.db") as catalog,
    ):
        yield World(tmp_path, mlflow, catalog, made)


def somebody_edits(world: World) -> None:
    """Add a group, a feature, an owner, a custom property; take one of our groups away."""
    with CatalogClient(world.catalog.url, "") as client:

        def stored(urn: str, aspect: str) -> dict[str, Any]:
            found = client.get_aspect(urn, aspect)
            assert found is not None
            return dict(found)

        urn = world.model("more 0")
        model = stored(urn, "mlModelProperties")
        model["groups"] = [*model["groups"], group("of somebody")]
        model["mlFeatures"] = [feature("of.somebody", "age")]
        model["customProperties"] = {**model["customProperties"], "reviewed": "yes"}
        owners = stored(urn, "ownership")["owners"]
        owner = {"owner": PERSON, "type": "DATAOWNER"}
        other = stored(world.model("more 1"), "mlModelProperties")
        other["groups"] = []
        churn = NAMING.group("churn").urn
        refused = client.write(
            [
                Proposal(urn, "mlModelProperties", model),
                Proposal(urn, "ownership", {"owners": [*owners, owner]}),
                Proposal(world.model("more 1"), "mlModelProperties", other),
                Proposal(churn, "domains", {"domains": ["urn:li:domain:retention"]}),
                Proposal(churn, "editableMlModelGroupProperties", {"description": "by hand"}),
            ]
        )
        assert refused == []


def mlflow_changes(world: World) -> None:
    """Delete a run, restore one, rename an experiment, move an alias, edit an ended run."""
    made = world.made
    with mlflow_client(world.mlflow.url) as client:
        client.delete_run(made.runs["child-2"])
        client.restore_run(made.runs["deleted"])
        client.rename_experiment(made.experiments["churn"], NEW_NAME)
        client.set_registered_model_alias("churn-model", "champion", "1")
        client.set_tag(made.runs["more 2"], "team", "edited after the end")


def expected(world: World) -> dict[str, dict[str, Any]]:
    """Return what MLflow says now, with what somebody put beside it."""
    with running_catalog(world.folder / "afresh.db") as afresh:
        world.ingest(name="afresh", catalog=afresh)
        found = comparable(everything(afresh.store))
    urn = world.model("more 0")
    found[urn]["mlModelProperties"]["groups"].append(group("of somebody"))
    found[urn]["mlModelProperties"]["mlFeatures"] = [feature("of.somebody", "age")]
    found[urn]["mlModelProperties"]["customProperties"]["reviewed"] = "yes"
    found[urn]["ownership"]["owners"].append({"owner": PERSON, "type": "DATAOWNER"})
    renamed = found[NAMING.group(NEW_NAME).urn]
    renamed["domains"] = {"domains": ["urn:li:domain:retention"]}
    renamed["editableMlModelGroupProperties"] = {"description": "by hand"}
    return {urn: in_order(aspects) for urn, aspects in found.items()}


def comparable(reported: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return aspects without our own bookkeeping, and without what the catalog computes."""
    found: dict[str, dict[str, Any]] = {}
    for urn, aspects in reported.items():
        for name, text in aspects.items():
            value = json.loads(text)
            for computed in ("ownerTypes", "domainAssociations"):
                value.pop(computed, None)
            custom = value.get("customProperties")
            if custom is not None:
                value["customProperties"] = {
                    key: one for key, one in custom.items() if not key.startswith(BOOKKEEPING)
                }
            if not name.endswith("Key") and value not in ({"removed": False}, {"owners": []}):
                found.setdefault(urn, {})[name] = in_order(value)
    return found


def in_order(value: Any) -> Any:
    """Return a value whose lists are sorted: the order of entries is that of their arrival."""
    if isinstance(value, dict):
        return {key: in_order(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


@pytest.mark.parametrize("lost_state", [False, True])
def test_the_catalog_holds_what_the_source_and_somebody_say(
    world: World, *, lost_state: bool
) -> None:
    world.ingest()
    somebody_edits(world)
    mlflow_changes(world)
    if lost_state:
        (world.folder / "trust.db").unlink()
        world.ingest()
    else:
        (read,) = world.ingest()["passes"]
        assert not read["full"]
        # MLflow does not tell when a tag of an ended run was edited: that is what full passes find.
        world.ingest("--full")
    now = comparable(everything(world.catalog.store))
    old = NAMING.group("churn").urn
    assert now.pop(old)["status"] == {"removed": True}
    assert now.pop(world.model("child-2"))["status"] == {"removed": True}
    then = expected(world)
    assert now.keys() == then.keys()
    for urn, aspects in then.items():
        assert now[urn] == aspects, urn
    again = world.ingest("--full")
    assert sum(
        one["unchanged"] + one["still_removed"] + one["left_out"]
        for one in again["entities"].values()
    ) == sum(one["read"] for one in again["entities"].values())
    assert again["proposals_sent"] == 0
