"""Environments as users have them: what is installed in one, and what its programs say."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support.venvs import Venv

_VERSIONS = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


def output(command: Sequence[str | Path], cwd: Path, **env: str) -> str:
    """Return what a program that succeeds prints; `env` is its whole environment, if given."""
    done = finished(command, cwd, env or None)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def finished(
    command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Return a program that has ended; nothing of ours reaches it through the environment."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLCAT_", "PYTHON"))}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=inherited if env is None else env,
        stdin=subprocess.DEVNULL,
        timeout=600,
    )


def versions(venv: Venv) -> dict[str, str]:
    """Return the version of each distribution, by its name in lower case."""
    found: dict[str, str] = json.loads(output([venv.python, "-I", "-c", _VERSIONS], venv.path))
    return found


def skip_without_index(errors: str) -> None:
    """Skip a test whose program could not reach the package index; in CI it has to."""
    unreachable = (
        "Failed to fetch",
        "the network was disabled",
        "Network connectivity is disabled",
    )
    if any(words in errors for words in unreachable) and not os.environ.get("CI"):
        pytest.skip(f"the package index cannot be reached: {errors.splitlines()[0]}")
