"""What other connectors get wrong (D1-D7, D10), on a real server.

The store holds nested runs, every status, versions and aliases, trash, and hostile names: quotes,
commas, parentheses, percent, slashes, 300 characters, emoji, right-to-left, newlines, HTML.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from support.bulk_runs import insert_runs, insert_versions
from support.catalog_server import running_catalog
from support.cli import report_of
from support.counting_proxy import counting_proxy
from support.mlflow_databases import seeded_server
from support.mlflow_server import MlflowServer
from support.sdk_schema import assert_valid_for_sdk
from support.seeded_store import HOSTILE_NAMES, SeededStore

NAMING = Naming()


@dataclass(frozen=True)
class World:
    mlflow: MlflowServer
    made: SeededStore
    store: Store
    report: dict[str, Any]

    def requests(self, folder: Path) -> tuple[int, int]:
        """Read everything into a file; return how often MLflow was asked, and how many models."""
        recipe, out = folder / "to-file.yml", folder / "out.jsonl"
        with counting_proxy(self.mlflow.url) as proxy:
            recipe.write_text(
                f"source: {{type: mlflow, config: {{tracking_uri: '{proxy.url}'}}}}\n"
                f"sink: {{type: file, config: {{path: '{out}'}}}}\n"
            )
            assert call([str(recipe), "-q"]) == 0
            asked = len(proxy.take())
        sent = map(json.loads, out.read_text().splitlines())
        models = [one["entityUrn"] for one in sent if one["aspectName"] == "mlModelProperties"]
        return asked, len(models)

    def model(self, label: str) -> dict[str, Any]:
        """Return the aspects of the model of the run that the store knows as `label`."""
        urn = NAMING.model(self.made.runs[label]).urn
        return {name: one.value for name, one in self.store.get_many([urn])[urn].items()}

    def properties(self, label: str) -> dict[str, str]:
        """Return the custom properties of a run's model."""
        custom: dict[str, str] = self.model(label)["mlModelProperties"]["customProperties"]
        return custom

    def version(self, number: str) -> dict[str, Any]:
        """Return the aspects of a version of `churn-model`."""
        urn = NAMING.version("churn-model", number).urn
        return {name: one.value for name, one in self.store.get_many([urn])[urn].items()}

    def versions(self) -> list[str]:
        """Return the models that are versions of registered models."""
        urns = list(self.store.list_urns("mlModel").urns)
        return [urn for urn, one in self.store.get_many(urns).items() if "versionProperties" in one]

    def group(self, urn: str) -> dict[str, Any]:
        return dict(self.store.get_many([urn])[urn]["mlModelGroupProperties"].value)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("peers")
    with (
        seeded_server("ours", folder / "store") as (mlflow, made),
        running_catalog(folder / "catalog.db") as catalog,
    ):
        recipe = folder / "recipe.yml"
        recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{mlflow.url}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        )
        yield World(mlflow, made, catalog.store, report_of(recipe))


def test_everything_in_the_store_arrives_once(world: World) -> None:
    counts = world.report["entities"]
    experiments = len(world.made.experiments) + 1 - counts["mlModelGroup"]["left_out"]
    assert counts["mlModelGroup"]["created"] == experiments + len(world.made.registered)
    runs = len(world.made.runs) - counts["mlModel"]["left_out"]
    assert counts["mlModel"]["created"] == runs + len(world.versions())
    assert world.report["failed_records"] == world.report["rejected"] == 0


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_are_kept_to_the_letter(world: World, name: str) -> None:
    group = world.group(NAMING.group(name).urn)
    assert group["name"] == name
    model = world.model(name)["mlModelProperties"]
    assert model["name"] == name[:250]
    assert {param["name"]: param["value"] for param in model["hyperParams"]}["text"] == name
    assert model["customProperties"]["text"] == name
    assert model["groups"] == [NAMING.group(name).urn]


def test_d1_the_tags_of_a_run_arrive(world: World) -> None:
    properties = world.properties("parent")
    assert properties["team"] == "growth"
    assert properties["mlflow.source.git.commit"] == "0" * 40
    assert world.model("parent")["mlModelProperties"]["description"] == "# a note"
    assert world.properties("child-1")["mlflow.parent_run_id"] == world.made.runs["parent"]


def test_d2_aliases_come_from_the_registered_model(world: World) -> None:
    version = world.version("2")
    aliases = json.loads(version["mlModelProperties"]["customProperties"]["mlflow.aliases"])
    assert set(aliases) == {"churn-model@champion", "churn-model@shadow"}
    tags = {one["versionTag"] for one in version["versionProperties"]["aliases"]}
    assert tags == {"champion", "shadow"}


def test_d3_requests_do_not_grow_with_runs_or_versions(world: World, tmp_path: Path) -> None:
    # One a listing (experiments, models, versions, runs, logged models), and the two first looks.
    assert world.report["source_requests"] <= 7
    before, models = world.requests(tmp_path)
    added = insert_runs(world.mlflow.db_path, 400, experiments=5, prefix="more")
    insert_versions(world.mlflow.db_path, "more", added[:300])
    after, more_models = world.requests(tmp_path)
    assert more_models == models + 400 + 300
    # The first page of runs is a small one, so these runs are one page more; and one asked ahead.
    assert after <= before + 2


def test_d4_every_version_of_a_run_is_named(world: World) -> None:
    versions = json.loads(world.properties("parent")["mlflow.versions"])
    hostile = len(world.made.registered) - 2
    assert "churn-model:1" in versions
    assert len(versions) == hostile + 1
    assert world.model("parent")["mlModelProperties"]["groups"] == [NAMING.group("churn").urn]
    of_version = world.version("1")["mlModelProperties"]
    assert of_version["groups"] == [NAMING.registered_group("churn-model").urn]
    run = of_version["customProperties"]["mlflow.run_model"]
    assert run == NAMING.model(world.made.runs["parent"]).urn


@pytest.mark.parametrize(
    ("label", "status"),
    [("child-1", "FINISHED"), ("child-2", "FAILED"), ("child-3", "KILLED"), ("running", "RUNNING")],
)
def test_d5_every_status_is_reported_as_it_is(world: World, label: str, status: str) -> None:
    assert world.properties(label)["mlflow.status"] == status


def test_d5_what_is_no_number_is_text(world: World) -> None:
    metrics = world.model("parent")["mlModelProperties"]["trainingMetrics"]
    values = {metric["name"]: metric["value"] for metric in metrics}
    assert (values["loss"], values["up"], values["down"]) == ("NaN", "Infinity", "-Infinity")
    assert values["tiny"] == "5e-324"
    assert "system/cpu_utilization_percentage" not in values
    assert world.report["notes"]["system_metrics_left_out"] >= 1


def test_d6_an_apostrophe_ends_nothing(world: World) -> None:
    name = "O'Brien's \"best\" model"
    assert world.group(NAMING.registered_group(name).urn)["name"] == name


def test_d7_a_stage_or_none_is_a_tag_or_nothing(world: World) -> None:
    tags = world.version("1")["globalTags"]["tags"]
    assert "urn:li:tag:mlflow_production" in {tag["tag"] for tag in tags}
    assert "globalTags" not in world.version("2")


def test_d10_a_group_has_its_name_and_newest_version(world: World) -> None:
    group = world.group(NAMING.registered_group("churn-model").urn)
    assert group["name"] == "churn-model"
    newest = 4 if world.made.logged_models else 3
    assert group["version"]["versionTag"] == str(newest)


def test_what_is_in_the_trash_is_left_out(world: World) -> None:
    urns = [NAMING.model(world.made.runs[label]).urn for label in ("deleted", "in-abandoned")]
    assert not any(world.store.get_many(urns).values())
    counts = world.report["entities"]
    assert [counts[kind]["left_out"] for kind in ("mlModel", "mlModelGroup")] == [2, 1]


def test_all_that_was_written_fits_the_sdks_schema(world: World) -> None:
    for entity_type in ("mlModel", "mlModelGroup", "tag", "versionSet"):
        page = world.store.list_urns(entity_type, 0, 1000)
        for urn, aspects in world.store.get_many(page.urns).items():
            for name, aspect in aspects.items():
                assert_valid_for_sdk(Proposal(urn, name, aspect.value))
