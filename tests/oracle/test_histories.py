"""Nothing differs after each of many random histories of edits on both sides."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from oracle import differences
from support.catalog_server import running_catalog
from support.examples import examples
from support.seeded_store import START_MS

pytestmark = pytest.mark.integration

HISTORIES = examples(25)
NAMES = Naming()


@dataclass
class World:
    """An MLflow store that its real client edits, a catalog that people edit, and a recipe."""

    uri: str
    recipe: str
    mlflow: Any
    catalog: CatalogClient
    random: random.Random
    made: int = 0

    def name(self) -> str:
        self.made += 1
        return f"n{self.made}"

    def experiments(self) -> list[Any]:
        return list(self.mlflow.search_experiments())

    def runs(self, view: int = 1) -> list[Any]:
        ids = [one.experiment_id for one in self.experiments()]
        return list(self.mlflow.search_runs(ids, run_view_type=view))

    def models(self) -> list[Any]:
        return list(self.mlflow.search_registered_models())

    def pick(self, things: list[Any]) -> Any:
        return self.random.choice(things) if things else None

    # Edits in MLflow

    def add_experiment(self) -> None:
        self.mlflow.create_experiment(self.name(), tags={"team": self.name()})

    def rename_experiment(self) -> None:
        mine = [one for one in self.experiments() if one.experiment_id != "0"]
        if (one := self.pick(mine)) is not None:
            self.mlflow.rename_experiment(one.experiment_id, self.name())

    def delete_experiment(self) -> None:
        mine = [one for one in self.experiments() if one.experiment_id != "0"]
        if len(mine) > 3:
            self.mlflow.delete_experiment(self.pick(mine).experiment_id)

    def add_run(self) -> None:
        at = START_MS + self.made * 60_000
        run = self.mlflow.create_run(self.pick(self.experiments()).experiment_id, at)
        self.mlflow.log_param(run.info.run_id, "lr", self.random.random())
        self.mlflow.log_metric(run.info.run_id, "auc", self.random.random())
        if self.random.random() < 0.8:
            self.mlflow.set_terminated(run.info.run_id, "FINISHED", at + 1_000)

    def edit_run(self) -> None:
        if (one := self.pick(self.runs())) is not None:
            self.mlflow.set_tag(one.info.run_id, "stage", self.name())
            self.mlflow.log_metric(one.info.run_id, "auc", self.random.random(), step=self.made)

    def delete_tag(self) -> None:
        tagged = [one for one in self.runs() if "stage" in one.data.tags]
        if (one := self.pick(tagged)) is not None:
            self.mlflow.delete_tag(one.info.run_id, "stage")

    def delete_run(self) -> None:
        if (one := self.pick(self.runs())) is not None:
            self.mlflow.delete_run(one.info.run_id)

    def restore_run(self) -> None:
        if (one := self.pick(self.runs(view=2))) is not None:
            self.mlflow.restore_run(one.info.run_id)

    def add_version(self) -> None:
        models = [one.name for one in self.models()]
        if not models or self.random.random() < 0.3:
            models = [self.mlflow.create_registered_model(self.name()).name]
        if (run := self.pick(self.runs())) is not None:
            self.mlflow.create_model_version(self.pick(models), "s3://b/m", run.info.run_id)

    def move_alias(self) -> None:
        versions = list(self.mlflow.search_model_versions())
        if (one := self.pick(versions)) is not None:
            self.mlflow.set_registered_model_alias(one.name, "champion", one.version)

    def delete_version(self) -> None:
        versions = list(self.mlflow.search_model_versions())
        if len(versions) > 3:
            one = self.pick(versions)
            self.mlflow.delete_model_version(one.name, one.version)

    # Edits in the catalog

    def edit_model(self) -> None:
        """Change and add properties of a run's model, as a person does."""
        if (one := self.pick(self.runs())) is not None:
            urn = NAMES.model(one.info.run_id).urn
            self.overwrite(
                urn, "mlModelProperties", {"customProperties": {"reviewed": self.name()}}
            )

    def lose_parameters(self) -> None:
        """Empty what a run's model says of its parameters, as a careless script does."""
        if (one := self.pick(self.runs())) is not None:
            self.overwrite(
                NAMES.model(one.info.run_id).urn, "mlModelProperties", {"hyperParams": []}
            )

    def tag_model(self) -> None:
        if (one := self.pick(self.runs())) is not None:
            urn = NAMES.model(one.info.run_id).urn
            tags = {"tags": [{"tag": f"urn:li:tag:{self.name()}"}]}
            assert self.catalog.write([Proposal(urn, "globalTags", tags)]) == []

    def overwrite(self, urn: str, aspect: str, fields: dict[str, Any]) -> None:
        stored = self.catalog.read_many([urn], [aspect]).get(urn, {}).get(aspect)
        if stored is not None:
            value = {**stored.value}
            for name, field in fields.items():
                value[name] = {**value[name], **field} if isinstance(field, dict) else field
            assert self.catalog.write([Proposal(urn, aspect, value)]) == []

    @property
    def edits(self) -> list[Callable[[], None]]:
        in_mlflow = [self.add_experiment, self.rename_experiment, self.delete_experiment]
        in_mlflow += [self.add_run] * 4 + [self.edit_run, self.delete_tag, self.delete_run]
        in_mlflow += [self.restore_run, self.add_version, self.move_alias, self.delete_version]
        return [*in_mlflow, self.edit_model, self.lose_parameters, self.tag_model]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with (
        running_catalog(tmp_path / "catalog.db") as running,
        mlflow_client(uri) as mlflow,
        CatalogClient(running.url) as catalog,
    ):
        recipe = tmp_path / "recipe.yml"
        recipe.write_text(
            f"name: night\nsource: {{type: mlflow, config: {{tracking_uri: '{uri}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{running.url}'}}}}\n"
            "evaluate: {enabled: false}\nlimits: {max_removed_ratio: 1.0}\n"
        )
        yield World(uri, str(recipe), mlflow, catalog, random.Random(20_261))


@pytest.mark.timeout(900)
def test_nothing_differs_after_random_histories(world: World) -> None:
    for number in range(HISTORIES):
        edits = world.random.choices(world.edits, k=world.random.randint(4, 12))
        for edit in edits:
            edit()
        names = [edit.__name__ for edit in edits]
        if number % 2:
            assert call([world.recipe, "-q"]) == 0, (number, names)
        assert call([world.recipe, "-q", "--full"]) == 0, (number, names)
        found = differences(world.uri, world.catalog.server, others={"reviewed"})
        assert found == [], (number, names)
    assert len(world.runs(view=3)) > HISTORIES
    assert len(world.mlflow.search_model_versions()) > HISTORIES // 8
    assert call(["verify", world.recipe]) == 0
