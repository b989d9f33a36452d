"""Virtual environments for programs that cannot share ours, made once and kept in `.venvs/`."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / ".venvs"


def dependencies() -> tuple[str, ...]:
    """Return what our package needs, for venvs that run it from its source."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return tuple(project["dependencies"])


REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "mlflow-2.9": ("mlflow==2.9.2", "sqlalchemy>=2.0,<2.1", "setuptools<81"),
    "mlflow-3.0": ("mlflow>=3.0,<3.1", "sqlalchemy>=2.0,<2.1", "setuptools<81"),
    # MLflow 2.x needs the SQLAlchemy of its time: on 2.1 its server dies at import.
    "mlflow-2": ("mlflow>=2.22,<3", "sqlalchemy>=2.0,<2.1", "setuptools<81"),
    # Enough to make and fill a database, in a tenth of the space.
    "mlflow-skinny-3.1": ("mlflow-skinny>=3.1.1,<3.2", "alembic>=1.10", "sqlalchemy>=2.0,<2.1"),
    "mlflow-skinny-3.8": (
        *("mlflow-skinny>=3.8,<3.9", "alembic>=1.10", "sqlalchemy>=2.0,<2.1"),
        *("numpy>=1.26", "pandas>=2"),
    ),
    "airflow-3.3": (
        *("apache-airflow>=3.3,<3.4", "coverage>=7.10", *dependencies()),
        # The executor of several machines, which cannot be imported beside Celery 5.7.
        *("apache-airflow-providers-celery>=3.26", "celery[redis]<5.7"),
        *("psycopg[binary]>=3.1.18", "asyncpg>=0.30"),
        "apache-airflow-providers-openlineage>=2.20.3,<3",
    ),
    # Each resolved as of its release: later libraries break it.
    "airflow-2.11": ("--exclude-newer=2026-04-15", "apache-airflow==2.11.2", *dependencies()),
    "airflow-3.0": (
        "--exclude-newer=2025-09-05",
        # Our floors are newer.
        "--exclude-newer-package=orjson=2026-02-15",
        "--exclude-newer-package=urllib3=2026-02-15",
        *("apache-airflow==3.0.6", *dependencies()),
    ),
    "airflow-3.1": ("--exclude-newer=2026-03-20", "apache-airflow==3.1.8", *dependencies()),
    "airflow-3.2": ("--exclude-newer=2026-06-01", "apache-airflow==3.2.2", *dependencies()),
    # All that training needs to log to a server.
    "mlflow-skinny-3.17": ("mlflow-skinny>=3.17,<3.18",),
    "mlflow-3.17-auth": ("mlflow[auth]>=3.17,<3.18",),
    "mlflow-3.18": (
        *("--no-config", "--override=tests/support/without-skinny.txt", "mlflow==3.18.0"),
        # What the part that is left out requires.
        *("anyio", "cachetools", "click", "cloudpickle", "databricks-sdk", "fastapi<1"),
        *("gitpython", "importlib_metadata", "opentelemetry-api", "opentelemetry-proto"),
        *("opentelemetry-sdk", "packaging", "protobuf<8", "pydantic>=2", "python-dotenv"),
        *("pyyaml", "requests", "sqlparse", "starlette<2", "typing-extensions", "uvicorn<1"),
    ),
    # The libraries that MLflow logs by itself, in one environment.
    "mlflow-3.17-training": (
        "mlflow>=3.17,<3.18",
        *("xgboost-cpu>=3", "lightgbm>=4", "optuna>=4", "polars>=1"),
    ),
    # MLflow with the plug-in of AWS that signs requests, and what our sources need.
    "mlflow-3.17-sagemaker": (
        *("mlflow-skinny>=3.17,<3.18", "sagemaker-mlflow>=0.5,<0.6"),
        *dependencies(),
    ),
    # DataHub's command line, and what our source in it needs; the tests' own environment has 1.7.
    **{
        f"datahub-{sdk[:3]}": (f"acryl-datahub=={sdk}", *dependencies())
        for sdk in ("1.4.0.9", "1.5.0.19", "1.6.0.17")
    },
    # DataHub's server for assistants, which brings a DataHub SDK of its own.
    "mcp-datahub-0.8": ("mcp-server-datahub>=0.8,<0.9",),
    "feast-0.67": (
        # Its REST server needs a FastAPI of its time; sources need the drivers of what they name.
        *(
            "feast[grpcio]==0.67.0",
            "fastapi==0.136.3",
            "sqlalchemy>=2.0",
            "trino>=0.330",
            "regex>=2024.4",
        ),
        "psycopg[binary,pool]>=3.1.18",
    ),
}


@dataclass(frozen=True, slots=True)
class Venv:
    """A virtual environment that is complete; `bin` holds its programs."""

    path: Path

    @property
    def bin(self) -> Path:
        return self.path / "bin"

    @property
    def python(self) -> Path:
        return self.bin / "python"


OURS = Venv(Path(sys.prefix))
"""The environment of the tests: it has the MLflow that is locked, and the drivers of databases."""


def venv_for(name: str) -> Venv:
    """Return the environment `name` of `REQUIREMENTS`, made on first use.

    Safe with several test workers: one makes it, the others wait. A change of the requirements
    makes a new one.
    """
    return make_venv(name, REQUIREMENTS[name])


def make_venv(name: str, requirements: tuple[str, ...], *, root: Path = ROOT) -> Venv:
    """Return `root/name-<hash>` with `requirements` installed; only a complete one gets the name.

    The environment is built in a folder of its own and renamed, so a killed build leaves nothing
    that looks finished. Its scripts are found by `python -m`, never by their first line.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join((version, *requirements)).encode()).hexdigest()[:8]
    target = root / f"{name}-{digest}"
    if target.is_dir():
        return Venv(target)
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / f".{target.name}.lock"):
        if not target.is_dir():
            building = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=root))
            try:
                _install(building, requirements)
                building.rename(target)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    return Venv(target)


def install_metadata(folder: Path) -> None:
    """Put into `folder` what says which entry points we have, for a venv that runs our source."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target"]
    _run([*command, str(folder), "--python", sys.executable, "-e", str(REPOSITORY)])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which one process at a time has, while the block runs."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install(folder: Path, requirements: tuple[str, ...]) -> None:
    python = str(folder / "bin" / "python")
    if importlib.util.find_spec("uv") is not None:
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)])
        _run([*uv, "pip", "install", "--quiet", "--python", python, *requirements])
    else:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([python, "-m", "pip", "install", "--quiet", *requirements])


def _run(command: list[str]) -> None:
    inherited = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=inherited, cwd=REPOSITORY
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
