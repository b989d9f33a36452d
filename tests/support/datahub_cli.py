"""DataHub's own command line as a process of its own, unmodified but for its look at the index.

After every command it asks a package index for newer versions, and no setting turns that off; a
test must not leave the machine.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_START: Final = """
import datahub.ingestion.run.pipeline as pipeline
import datahub.upgrade.upgrade as upgrade
upgrade.check_upgrade_post = lambda *args, **kwargs: None
pipeline.retrieve_version_stats = lambda *args, **kwargs: None
from datahub.entrypoints import main
main()
"""


@dataclass(frozen=True, slots=True)
class DataHubCli:
    """The command line, set to one server; `home` is its home folder."""

    server: str
    home: Path
    token: str = ""

    def run(
        self, *args: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `datahub ARGS...`; with `check`, a status other than 0 fails the test."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-c", _START, *args],
            env={
                **kept,
                "HOME": str(self.home),
                "DATAHUB_GMS_URL": self.server,
                "DATAHUB_GMS_TOKEN": self.token,
                "DATAHUB_SKIP_CONFIG": "true",
                "DATAHUB_TELEMETRY_ENABLED": "false",
                "NO_COLOR": "1",
                **environment,
            },
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"datahub {' '.join(args)}\n{done.stdout}\n{done.stderr}"
        return done
