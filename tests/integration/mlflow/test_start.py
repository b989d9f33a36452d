"""The start of a run in which nothing changed: it imports what its recipe needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mlcat_ingest.cli.main import call
from support.catalog_server import running_catalog
from support.mlflow_server import running
from support.venvs import OURS

# Requests brings five of them, Pydantic four, YAML one.
PACKAGES = {
    *("mlcat_ingest", "click", "orjson", "yaml", "cython_runtime"),
    *("requests", "urllib3", "certifi", "charset_normalizer", "chardet", "idna"),
    *("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"),
}
UNUSED = (
    *("catalog", "metadata_tests", "sources.feast", "sources.sagemaker", "client.embedded"),
    *("sources.mlflow.read.client", "sql.engine", "airflow"),
    *("workflows.plan", "workflows.retract", "recipe.dump", "hooks.drain"),
)
LOADED = """
import atexit, gc, json, sys
from mlcat_ingest.cli.main import main
atexit.register(lambda: print("LOADED", json.dumps([gc.get_freeze_count() > 0, list(sys.modules)])))
main(["-q", "recipe.yml"])
"""


def in_python(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=120
    ).stdout


@pytest.mark.parametrize(
    ("address", "unused"),
    [("{0.url}", ["sources.mlflow.read.database"]), ("sqlite:///{0.db_path}", [])],
)
def test_a_run_in_which_nothing_changed_imports_little_and_ends_at_once(
    address: str, unused: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with running(OURS, tmp_path / "store") as mlflow, running_catalog(tmp_path / "c.db") as catalog:
        Path("recipe.yml").write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{address.format(mlflow)}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        )
        assert call(["-q", "recipe.yml"]) == 0
        ended_at_once, loaded = json.loads(in_python(LOADED, tmp_path).partition("LOADED")[2])
    assert ended_at_once
    at_start = in_python("import sys; print(*sys.modules)", tmp_path).split()
    foreign = {name.partition(".")[0] for name in {*loaded}.difference(at_start)}
    public = {name for name in foreign if not name.startswith("_")}
    assert public - sys.stdlib_module_names <= PACKAGES
    others = tuple(f"mlcat_ingest.{name}." for name in (*UNUSED, *unused))
    assert [name for name in loaded if f"{name}.".startswith(others)] == []
