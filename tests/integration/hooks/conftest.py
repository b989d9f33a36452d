"""One MLflow server and one catalog for the tests of hooks, and a folder with a recipe for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalog_server import RunningCatalog, running_catalog
from support.hooks import RECIPE, Bench
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with running(OURS, tmp_path_factory.mktemp("mlflow") / "store") as server:
        yield server


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path_factory.mktemp("catalog") / "catalog.db") as catalog:
        yield catalog


@pytest.fixture
def bench(tmp_path: Path, mlflow: MlflowServer, catalog: RunningCatalog) -> Bench:
    found = Bench(tmp_path, mlflow.url)
    found.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
    return found
