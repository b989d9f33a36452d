"""Our wheel resolved beside what trains models: nothing of it moves. Nothing is installed."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.compat

PYTHON = "3.11"
"""On 3.13 no TensorFlow goes with the protobuf of MLflow 2.9."""
TRAINING = ("tensorflow", "pytorch-lightning", "mlflow==2.9.2")


def resolution(requirements: Sequence[str], *options: str) -> dict[str, str]:
    """The versions that an installation of `requirements` would choose, by name."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
    done = subprocess.run(
        [*command, "--no-annotate", "--python-version", PYTHON, *options, "-"],
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    chosen = (line.partition("==") for line in done.stdout.splitlines() if "==" in line)
    return {name: version for name, _, version in chosen}


def test_nothing_moves(wheel: Path, tmp_path: Path) -> None:
    without = resolution(TRAINING)
    assert {requirement.partition("==")[0] for requirement in TRAINING} <= set(without)
    # As they are installed already: a release that appears in between moves nothing either.
    installed = tmp_path / "installed.txt"
    installed.write_text("\n".join(f"{name}=={version}" for name, version in without.items()))
    ours = f"mlcat-ingest @ {wheel.as_uri()}"
    with_us = resolution([*TRAINING, ours], "--constraint", str(installed))
    assert {name: with_us.get(name) for name in without} == without
    assert "orjson" in with_us
