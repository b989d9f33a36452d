"""A real Airflow of its own venv and folder, which runs the DAG files that come with us."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.commands import ended
from support.venvs import REPOSITORY, Venv, install_metadata, locked, venv_for

DAGS = REPOSITORY / "airflow_dags"
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_COMMANDS = """
import json, os, sys
from airflow.__main__ import main
for words, env in json.loads(sys.argv[1]):
    os.environ.update(env)
    sys.argv = ["airflow", *words]
    main()
"""
_SCRIPT = Path(__file__).with_name("airflow_script.py")


@dataclass(frozen=True)
class Airflow:
    """An installed Airflow whose database stands in `home`, unless `settings` name another one."""

    home: Path
    venv: Venv
    packages: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def env(self, **more: str) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLCAT_", "AIRFLOW"))}
        return {
            **inherited,
            "PATH": f"{self.venv.bin}{os.pathsep}{os.environ.get('PATH', '')}",
            # The source itself, and beside it the metadata that says which provider it is.
            "PYTHONPATH": os.pathsep.join(
                map(str, (REPOSITORY / "src", REPOSITORY / "tests", self.packages))
            ),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            **self.settings,
            **more,
        }

    def run(self, *command: str, **env: str) -> str:
        """Run one of Airflow's own commands, and return what it printed, standard output last."""
        done = self._run([str(self.venv.python), "-m", "airflow", *command], env)
        return done.stderr + done.stdout

    def run_all(self, *commands: tuple[Sequence[str], Mapping[str, str]]) -> str:
        """Run Airflow's own commands, each with its variables, in one process: it takes seconds."""
        given = json.dumps([[list(words), dict(env)] for words, env in commands])
        done = self._run([str(self.venv.python), "-c", _COMMANDS, given], {})
        return done.stderr + done.stdout

    def python(self, script: Path, *arguments: str, **env: str) -> str:
        """Run a script, and return all that it printed, its standard output last."""
        done = self._run([str(self.venv.python), str(script), *arguments], env)
        return done.stderr + done.stdout

    def script(self, steps: Sequence["Step"], **env: str) -> "Outcome":
        """Do `steps` in one process of Airflow."""
        dags = self.env(**env)["AIRFLOW__CORE__DAGS_FOLDER"]
        given = json.dumps([[one.dag_id, one.conf, one.env] for one in steps])
        done = self._run([str(self.venv.python), str(_SCRIPT), dags, given], env)
        last = done.stdout.rstrip().rpartition("\n")[2]
        return Outcome(**json.loads(last), printed=done.stdout + done.stderr)

    def _run(
        self, command: Sequence[str], env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return ended(command, env=self.env(**env), cwd=self.home)


@dataclass(frozen=True)
class Step:
    """One run of a DAG, with further variables of the environment."""

    dag_id: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a script saw: import errors of DAG files, and of each run what became of it."""

    import_errors: Mapping[str, str]
    found: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    printed: str


def make_airflow(folder: Path, release: str = "3.3", **settings: str) -> Airflow:
    """Make an Airflow of a release with an empty database; its venv is made on first use.

    `settings` are variables of the environment of all its processes. Without an address of a
    database among them, it is the copy of one in SQLite that is kept with the venv.
    """
    airflow = airflow_of(folder, release, **settings)
    if DATABASE in settings:
        airflow.run("db", "migrate")
        return airflow
    database, kept = airflow.home / "airflow.db", airflow.venv.path / "airflow.db"
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            airflow.run("db", "migrate")
            shutil.copyfile(database, kept.with_suffix(".new")).rename(kept)
    shutil.copyfile(kept, database)
    return airflow


def airflow_of(folder: Path, release: str = "3.3", **settings: str) -> Airflow:
    """Make an Airflow without a database, which does for connections of the environment."""
    packages = folder / "packages"
    venv = venv_for(f"airflow-{release}")
    install_metadata(packages)
    home = folder / "home"
    home.mkdir()
    return Airflow(home, venv, packages, settings)
