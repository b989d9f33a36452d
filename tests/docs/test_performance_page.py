"""The page of measurements: each command on it runs, and each figure on it is printed by one."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text()
COMMANDS = re.findall(r"^\.venv/bin/python (tests/benchmarks/\S+\.py.*)$", PAGE, re.MULTILINE)

# What makes a benchmark small enough for a test; the last of two equal options counts.
TINY = {
    "bench_catalog.py": (
        "--rounds 1 --aspects 200 --models 200 --entities 400 --requests 40 --connections 2"
    ),
    "bench_mlflow.py": "--runs 200 --rounds 1 --settle 0",
    "bench_emitter.py": "--proposals 400 --rounds 1",
    "bench_features.py": "--views 50 --features 3 --rounds 1",
}


def test_there_are_commands() -> None:
    assert COMMANDS


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_and_prints_what_the_page_shows(command: str) -> None:
    script, *options = shlex.split(command)
    tiny = shlex.split(TINY[Path(script).name])
    if "--width" in options:
        tiny += ["--database", "sqlite"]  # without a server: others start one
    if "--datahub-venv" in options:
        tiny += ["--datahub-venv", sys.prefix]
    done = subprocess.run(
        [sys.executable, script, *options, *tiny],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = PAGE.partition(command)[2].partition(".venv/bin/python")[0]
    numbers = re.findall(r"^\| ([^|]+) \| [^|]+\d[^|]* \|", shown, re.MULTILINE)
    printed = set(re.findall(r"^\| ([^|]+) \|", done.stdout, re.MULTILINE))
    assert numbers
    assert set(numbers) <= printed
