"""The tutorials, walked from an empty folder to their end: each command, and what it prints."""

from pathlib import Path

import pytest

from support.airflow_home import airflow_of
from support.ports import port_to_keep
from support.venvs import OURS, venv_for
from support.walk import walk

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def ports(*shown: int) -> dict[str, str]:
    """Return free ports for those that a page names."""
    return {str(one): str(port_to_keep()) for one in shown}


def test_first_ingest(tmp_path: Path, *, update_golden: bool) -> None:
    walk(TUTORIALS / "first-ingest.md", tmp_path, ports(5050, 8080), update=update_golden)


def test_first_dag(tmp_path: Path, *, update_golden: bool) -> None:
    airflow = airflow_of(tmp_path)
    venvs = {".venv": airflow.venv, "mlflow-venv": OURS}
    env = {"PYTHONPATH": airflow.env()["PYTHONPATH"]}
    page, home = TUTORIALS / "first-dag.md", tmp_path / "home"
    walk(page, home, ports(8080, 8090), venvs=venvs, env=env, update=update_golden)


def test_first_hook(tmp_path: Path, *, update_golden: bool) -> None:
    walk(TUTORIALS / "first-hook.md", tmp_path, ports(8080), update=update_golden)


def test_first_feature_links(tmp_path: Path, *, update_golden: bool) -> None:
    venvs = {".venv": OURS, "feast-venv": venv_for("feast-0.67")}
    page = TUTORIALS / "first-feature-links.md"
    walk(page, tmp_path, ports(8080), venvs=venvs, update=update_golden)


def test_two_servers(tmp_path: Path, *, update_golden: bool) -> None:
    walk(TUTORIALS / "two-servers.md", tmp_path, ports(8080), update=update_golden)
