"""A machine as a new user has it: no program of ours, and nothing is downloaded or installed.

`python3 -m venv` makes an environment of one that is installed, by the name of its folder, and `pip
install` says whether that has all that is asked for.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.venvs import Venv

USER: Final = "you"


def environment(machine: Path, home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a new terminal: no program of a virtual environment is in reach."""
    left_out = ("MLCAT_", "MLFLOW_", "AIRFLOW", "VIRTUAL_ENV", "PYTHONPATH")
    path = [str(machine / "bin")]
    path += [
        one
        for one in os.environ["PATH"].split(os.pathsep)
        if not Path(one, "mlcat-ingest").exists()
    ]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(left_out)},
        "HOME": str(home),
        "LOGNAME": USER,
        "PATH": os.pathsep.join(path),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "GIT_PYTHON_REFRESH": "quiet",
        **more,
    }


_PIP: Final = """\
[ "$1" = install ] && shift
[ "$1" = -q ] && shift
%(uv)s -m uv pip install --offline --dry-run --python %(python)s "$@" >%(log)s 2>&1 &&
  ! grep -q "does not have an extra" %(log)s &&
  ! grep "^ + " %(log)s | grep -qv "^ + mlcat-ingest[= ]" ||
  { cat %(log)s; exit 1; }
"""
"""What `pip install` does: it fails where something is missing, or an extra is unknown."""

_PYTHON3: Final = """\
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3" && cp -R %(installed)s/"${3##*/}"/. "$3"; exit; fi
exec %(python)s "$@"
"""


def make_machine(folder: Path, venvs: Mapping[str, Venv]) -> None:
    """Make the programs of a machine, and those of the environments that are made on it."""
    installed, programs = folder / "installed", folder / "bin"
    programs.mkdir(parents=True)
    for name, venv in venvs.items():
        _fake_installation(installed / name / "bin", folder / "pip.log", venv)
    quoted = {"installed": shlex.quote(str(installed)), "python": shlex.quote(sys.executable)}
    _program(programs / "python3", _PYTHON3 % quoted)
    _program(programs / "pip", "echo no environment is active; exit 1\n")


def _fake_installation(folder: Path, log: Path, venv: Venv) -> None:
    folder.mkdir(parents=True)
    names = {"uv": sys.executable, "python": venv.python, "log": log}
    quoted = {name: shlex.quote(str(value)) for name, value in names.items()}
    python = quoted["python"]
    _program(folder / "python", f'exec {python} "$@"\n')
    _program(folder / "pip", _PIP % quoted)
    _program(folder / "mlcat-ingest", f'exec {python} -m mlcat_ingest "$@"\n')
    for name in ("mlflow", "feast", "airflow"):
        # The first line of a script of a kept environment names the folder that it was built in.
        _program(folder / name, f'exec {python} {shlex.quote(str(venv.bin / name))} "$@"\n')
    activate = 'export PATH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd):$PATH"\n'
    (folder / "activate").write_text(activate)


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/bash\n{script}")
    path.chmod(0o755)
