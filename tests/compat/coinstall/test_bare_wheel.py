"""Our wheel alone, without any extra: what comes with it, and what works."""

import json
import sys
from pathlib import Path

import pytest

from mlcat_ingest.core.environment import MODULES
from mlcat_ingest.hooks.spool import EventSpool
from support import small_store
from support.catalog_server import RunningCatalog
from support.fakes import model_urn
from support.installed import finished, output, versions
from support.mlflow_server import running
from support.seeded_store import seed
from support.small_store import A, B
from support.venvs import REPOSITORY, Venv

OURS = {"mlcat-ingest"}
NAMED = {
    *("click", "orjson", "pydantic", "pyyaml", "requests", "rich", "sqlalchemy", "urllib3"),
}
BROUGHT = {
    *("annotated-types", "pydantic_core", "typing_extensions", "typing-inspection"),
    *("certifi", "charset-normalizer", "idna"),
    *("markdown-it-py", "mdurl", "pygments"),
}
"""What those in `NAMED` need; SQLAlchemy 2.0 has greenlet besides."""

NO_STORE = "http://127.0.0.1:1"
TO_FILE = "sink: {type: file, config: {path: out.jsonl}}"
MLFLOW = f"source: {{type: mlflow, config: {{tracking_uri: '{NO_STORE}'}}}}"
TO_CATALOG = f"sink: {{type: rest, config: {{server: '{NO_STORE}'}}}}"
RECIPES = {
    "embedded.yml": ("catalog", f"{MLFLOW}\nsink: {{type: embedded}}"),
    "feast.yml": ("feast", f"source: {{type: feast, config: {{registry: r.db}}}}\n{TO_FILE}"),
    "sagemaker.yml": ("aws", f"source: {{type: sagemaker, config: {{region: x}}}}\n{TO_FILE}"),
    "folder.yml": (
        "mlflow",
        f"source: {{type: mlflow, config: {{tracking_uri: ./mlruns}}}}\n{TO_FILE}",
    ),
    "database.yml": (
        "postgres",
        f"source: {{type: mlflow, config: {{tracking_uri: 'postgresql://h/db'}}}}\n{TO_FILE}",
    ),
    "state.yml": ("postgres", f"{MLFLOW}\n{TO_CATALOG}\nstate: {{url: 'postgresql://h/db'}}"),
}
COMMANDS = {
    "an address alone": ("catalog", (NO_STORE,)),
    "catalog serve": ("catalog", ("catalog", "serve", "--db", "c.db")),
    "catalog reindex": ("catalog", ("catalog", "reindex", "--db", "c.db")),
    "catalog tests push": ("tests", ("catalog", "tests", "push", "tests.yml")),
    "demo": ("demo", ("demo",)),
}

# A stand-in for MLflow's two modules that the hook looks at, which imports nothing itself.
STORES = """
class Info: run_id, status = "r1", "FINISHED"
class Store:
    def update_run_info(self, *args): return Info
class _tracking_store_registry: get_store = staticmethod(lambda uri=None: Store())
_tracking_store_registry = _tracking_store_registry()
def get_tracking_uri(): return "http://mlflow:5000"
"""
TRAINS = """
import sys
before = set(sys.modules)
from mlcat_ingest.hooks.plugin import NoRunContext
NoRunContext().in_context()
from mlflow.tracking._tracking_service import utils
utils._tracking_store_registry.get_store().update_run_info("r1", "FINISHED")
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - sys.stdlib_module_names))
"""


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    # In a place that stays: a program's first line names its interpreter.
    venv = Venv(tmp_path_factory.mktemp("bare") / "venv")
    uv = [sys.executable, "-m", "uv"]
    output([*uv, "venv", "--python", sys.executable, venv.path], REPOSITORY)
    output([*uv, "pip", "install", "--python", venv.python, wheel], REPOSITORY)
    return venv


def test_what_comes_with_the_wheel(bare: Venv) -> None:
    assert set(versions(bare)) - {"greenlet"} == OURS | NAMED | BROUGHT


def test_no_module_of_an_extra_is_there_but_what_rich_brings(bare: Venv) -> None:
    names = sorted({module for modules in MODULES.values() for module in modules})
    script = (
        "import json, sys\nfrom mlcat_ingest.core.environment import _is_installed\n"
        "print(json.dumps([name for name in sys.argv[1:] if _is_installed(name)]))"
    )
    assert json.loads(output([bare.python, "-I", "-c", script, *names], bare.path)) == [
        "markdown_it"
    ]


def test_the_commands_that_need_no_side_work(bare: Venv, tmp_path: Path) -> None:
    command = bare.bin / "mlcat-ingest"
    assert "Commands:" in output([command, "--help"], tmp_path)
    schema = json.loads(output([command, "schema"], tmp_path))
    assert {"feast", "mlflow", "sagemaker"} <= set(json.dumps(schema).split('"'))
    assert "wrote" in output([command, "init"], tmp_path) or (tmp_path / "recipe.yml").exists()


def test_a_database_of_mlflow_is_ingested(
    bare: Venv, catalog: RunningCatalog, tmp_path: Path
) -> None:
    store = small_store.make(tmp_path, catalog.url)
    command: list[str | Path] = [bare.bin / "mlcat-ingest", store.recipe()]
    assert "2 created" in output([*command, "--metrics-file", "m.prom"], tmp_path)
    stored = store.stored(A, B)
    assert [one["mlModelProperties"]["name"] for one in stored.values()] == ["run a", "run b"]
    assert 'mlcat_ingest_up{recipe="prod"} 1.0' in (tmp_path / "m.prom").read_text()


def test_a_server_of_mlflow_is_ingested(
    bare: Venv, catalog: RunningCatalog, tmp_path: Path
) -> None:
    with running(Venv(Path(sys.prefix)), tmp_path / "store") as mlflow:
        seeded = seed(mlflow.url)
        output([bare.bin / "mlcat-ingest", mlflow.url, "--to", catalog.url], tmp_path)
    trash = {"deleted", "in-abandoned"}
    urns = [model_urn(run_id) for label, run_id in seeded.runs.items() if label not in trash]
    held = catalog.store.get_many(urns, ["mlModelProperties"])
    assert set(held) == set(urns)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_that_needs_an_extra_is_reported_in_one_line(
    name: str, bare: Venv, tmp_path: Path
) -> None:
    extra, recipe = RECIPES[name]
    (tmp_path / name).write_text(recipe)
    refuses(bare, tmp_path, extra, name, "--quiet")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_needs_an_extra_is_reported_in_one_line(
    name: str, bare: Venv, tmp_path: Path
) -> None:
    (tmp_path / "tests.yml").write_text("id: a\n")
    (tmp_path / "c.db").touch()
    extra, words = COMMANDS[name]
    refuses(bare, tmp_path, extra, *words)


def refuses(bare: Venv, folder: Path, extra: str, *words: str) -> None:
    done = finished([bare.bin / "mlcat-ingest", *words], folder)
    assert (done.returncode, done.stdout) == (2, "")
    *warnings, line = done.stderr.splitlines()
    assert all(" WARNING " in warning for warning in warnings)
    assert line.startswith("mlcat-ingest: ")
    assert line.endswith(f"(pip install 'mlcat-ingest[{extra}]')")


def test_an_event_is_written_by_the_standard_library_alone(bare: Venv, tmp_path: Path) -> None:
    package = tmp_path / "site" / "mlflow" / "tracking" / "_tracking_service"
    package.mkdir(parents=True)
    (package / "utils.py").write_text(STORES)
    loaded = output(
        [bare.python, "-c", TRAINS],
        tmp_path,
        PYTHONPATH=str(tmp_path / "site"),
        MLCAT_HOOK="1",
        MLCAT_SERVER="http://127.0.0.1:1",
        MLCAT_SPOOL=str(tmp_path / "spool"),
        MLCAT_HOOK_SEND="0",
    )
    assert loaded.split() == ["mlcat_ingest", "mlflow"]
    spool = EventSpool(tmp_path / "spool")
    with spool.drain_lock():
        assert [one.event.run_id for one in spool.claim(9, bool)] == ["r1"]
