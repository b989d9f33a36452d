"""DataHub's own command line in a process of its own, unmodified but for its look at the index.

After every command it asks a package index for newer versions, and no setting turns that off; a
test must not leave the machine.
"""

import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.forks import Forks
from support.venvs import OURS, Venv

_PROGRAM: Final = """
import sys
import datahub.ingestion.run.pipeline as pipeline
import datahub.upgrade.upgrade as upgrade
upgrade.check_upgrade_post = lambda *args, **kwargs: None
pipeline.retrieve_version_stats = lambda *args, **kwargs: None
from datahub.entrypoints import main

def run(arguments):
    sys.argv = ["datahub", *arguments]
    main()
"""


@functools.cache
def _forks(venv: Venv, packages: str) -> Forks:
    """Return the process that forks in `venv`; Python looks into the folders `packages`, too."""
    env = {**_kept(), **_SETTINGS, "HOME": tempfile.gettempdir(), "PYTHONPATH": packages}
    return Forks(venv.python, _PROGRAM, env)


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}


_SETTINGS: Final = {
    "DATAHUB_SKIP_CONFIG": "true",
    "DATAHUB_TELEMETRY_ENABLED": "false",
    "NO_COLOR": "1",
}


@dataclass(frozen=True, slots=True)
class DataHubCli:
    """The command line, set to one server; `home` is its home folder, `venv` where it is installed.

    `packages` are folders, joined as in a path, that a venv without our package finds it in.
    """

    server: str
    home: Path
    token: str = ""
    venv: Venv = OURS
    packages: str = ""

    def run(
        self, *args: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `datahub ARGS...`; with `check`, a status other than 0 fails the test."""
        out, err = (Path(tempfile.mkstemp(dir=self.home)[1]) for _ in range(2))
        process = _forks(self.venv, self.packages).fork(
            args,
            self.home,
            out,
            err=err,
            env={
                **_kept(),
                **_SETTINGS,
                "HOME": str(self.home),
                "DATAHUB_GMS_URL": self.server,
                "DATAHUB_GMS_TOKEN": self.token,
                **environment,
            },
        )
        try:
            status = process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        done = subprocess.CompletedProcess(args, status, out.read_text(), err.read_text())
        if check:
            assert done.returncode == 0, f"datahub {' '.join(args)}\n{done.stdout}\n{done.stderr}"
        return done
