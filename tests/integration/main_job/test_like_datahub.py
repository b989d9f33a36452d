"""`compat: datahub` over time: versions' own models come, stay and go with their versions."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest import Pipeline, Recipe
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import RunningCatalog, running_catalog

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning")

PLATFORM = "urn:li:dataPlatform:mlflow"
FIRST, SECOND = (f"urn:li:mlModel:({PLATFORM},scorer_{number},PROD)" for number in (1, 2))


class Setting:
    """A store with a run behind two versions, and a catalog."""

    def __init__(self, folder: Path, catalog: RunningCatalog) -> None:
        self.uri = f"sqlite:///{folder / 'mlflow.db'}"
        self.folder = folder
        self.catalog = catalog
        with self.client() as client:
            run = client.create_run(client.create_experiment("churn"))
            client.set_terminated(run.info.run_id)
            self.run_id = run.info.run_id
            client.create_registered_model("scorer")
            for _ in range(2):
                client.create_model_version("scorer", "file:///model", self.run_id)

    def client(self) -> Any:
        return mlflow_client(self.uri)

    def ingest(self, *, full: bool = False, **config: Any) -> None:
        facts = {"tracking_uri": self.uri, "compat": "datahub", **config}
        recipe = {
            "name": "ours",
            "source": {"type": "mlflow", "config": facts},
            "sink": {"type": "rest", "config": {"server": self.catalog.url}},
            "state": {"url": f"sqlite:///{self.folder}/state.db"},
        }
        assert Pipeline(Recipe.parse(json.dumps(recipe))).run(full=full).exit_code == 0

    def live(self) -> set[str]:
        """Return the models that the catalog does not hold as removed."""
        urns = self.catalog.store.list_urns("mlModel").urns
        found = self.catalog.store.get_many(urns, ["status"])
        return {
            urn
            for urn in urns
            if "status" not in found.get(urn, {}) or not found[urn]["status"].value["removed"]
        }

    @property
    def run_model(self) -> str:
        return f"urn:li:mlModel:({PLATFORM},{self.run_id},PROD)"


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    with running_catalog(tmp_path / "catalog.db") as catalog, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield Setting(tmp_path, catalog)


def test_a_version_that_is_deleted_goes_with_the_next_pass_and_its_run_stays(
    setting: Setting,
) -> None:
    setting.ingest()
    with setting.client() as client:
        client.delete_model_version("scorer", "1")
    setting.ingest()
    assert setting.live() == {SECOND, setting.run_model}
    setting.ingest(full=True)
    assert setting.live() == {SECOND, setting.run_model}


def test_versions_outlive_their_run(setting: Setting) -> None:
    setting.ingest()
    with setting.client() as client:
        client.delete_run(setting.run_id)
    setting.ingest(full=True)
    assert setting.live() == {FIRST, SECOND}
    with setting.client() as client:
        client.restore_run(setting.run_id)
    setting.ingest(full=True)
    assert setting.live() == {FIRST, SECOND, setting.run_model}


def test_versions_that_fall_out_of_the_filters_are_kept(setting: Setting) -> None:
    setting.ingest()
    setting.ingest(full=True, runs={"statuses": ["FAILED"]})
    assert setting.live() == {FIRST, SECOND, setting.run_model}
    setting.ingest(full=True, experiments={"deny": ["churn"]})
    assert setting.live() == {FIRST, SECOND, setting.run_model}
