"""Training scripts with a hook: a folder with a recipe, and what the catalog then has."""

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlcat_ingest.hooks.drain import drain_into
from mlcat_ingest.hooks.spool import EventSpool
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog

RECIPE = """\
name: hooked
source: {{type: mlflow, config: {{tracking_uri: "{mlflow}", retries: 1}}}}
sink: {{type: rest, config: {{server: "{catalog}", retries: 1, timeout_s: 5}}}}
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder with a recipe, whose spool is beside it; scripts are run in it."""

    folder: Path
    mlflow: str

    @property
    def recipe(self) -> Path:
        return self.folder / "recipe.yml"

    @property
    def spool(self) -> EventSpool:
        return EventSpool(self.folder / ".mlcat" / "spool")

    def events(self) -> list[tuple[str, str]]:
        """Return run id and status of each event that waits, oldest first, and leave them there."""
        with self.spool.drain_lock() as mine:
            assert mine
            found = self.spool.claim(1000, bool)
            self.spool.release([one.name for one in found])
        return [(one.event.run_id, one.event.status) for one in found]

    def env(self, **more: str) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLCAT_", "MLFLOW_"))}
        return {
            **inherited,
            "HOME": str(self.folder),
            "MLFLOW_TRACKING_URI": self.mlflow,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
            "GIT_PYTHON_REFRESH": "quiet",
            **more,
        }

    def hooked(self, **more: str) -> dict[str, str]:
        """Return an environment with the hook on; events stay in the spool unless told else."""
        return self.env(
            **{
                "MLCAT_HOOK": "1",
                "MLCAT_RECIPE": str(self.recipe),
                "MLCAT_HOOK_SEND": "0",
                **more,
            }
        )

    def python(
        self, script: str, env: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a script in the folder."""
        return subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.folder,
            env=env or self.env(),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "mlcat_ingest", *words],
            cwd=self.folder,
            env=self.env(),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def as_installed(site: Path) -> str:
    """Return a PYTHONPATH with our sources, and the entry points that an installation brings.

    What runs of us in training and in MLflow's server needs nothing else.
    """
    project = Path(__file__).resolve().parents[2]
    reported = tomllib.loads((project / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, points in reported.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    found = site / "mlcat_ingest-0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: mlcat-ingest\nVersion: 0\n")
    (found / "entry_points.txt").write_text("\n".join(lines))
    return f"{project / 'src'}{os.pathsep}{site}"


def models(catalog: RunningCatalog, run_ids: Sequence[str]) -> list[str]:
    """Return those of the runs that the catalog has as models."""
    urns = {f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{one},PROD)": one for one in run_ids}
    held = catalog.store.get_many(list(urns), ["mlModelProperties"])
    return [run_id for urn, run_id in urns.items() if "mlModelProperties" in held.get(urn, {})]


def drained(recipe: Path, spool: Path | None = None) -> None:
    """Drain what waits for a recipe, once no background drain is at work, to the last event."""
    resolved = load_resolved(recipe)
    found = EventSpool(spool or recipe.parent / ".mlcat" / "spool")
    deadline = time.monotonic() + 180
    while (done := drain_into(resolved, found, str(recipe))).summary.busy:
        assert time.monotonic() < deadline  # a background drain gives up by itself
        time.sleep(0.2)
    assert done.report is None, done.report
    assert found.pending() == 0
