"""The page of measurements: each command on it runs, and each figure on it is printed by one."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "performance.md").read_text()
COMMANDS = re.findall(r"^\.venv/bin/python (tests/benchmarks/\S+\.py.*)$", PAGE, re.MULTILINE)

# What makes a benchmark small enough for a test; the last of two equal options counts.
TINY = {
    "bench_catalog.py": (
        "--rounds 1 --aspects 200 --models 200 --entities 400 --requests 40 --connections 2"
    ),
    "bench_mlflow.py": (
        f"--runs 10 --rounds 1 --settle 0 --workers 1 --only '' --datahub-venv {sys.prefix}"
    ),
    "bench_emitter.py": "--proposals 400 --rounds 1",
    "bench_features.py": "--views 50 --features 3 --rounds 1",
}

TOGETHER: dict[str, list[str]] = {}
"""Commands that one run with all their options stands for: all that read one kind of store."""
for one in COMMANDS:
    kind = f"database {'--database' in one}" if "bench_mlflow.py" in one else one
    TOGETHER.setdefault(kind, []).append(one)


def test_there_are_commands() -> None:
    assert COMMANDS


@pytest.mark.integration
@pytest.mark.parametrize("commands", TOGETHER.values(), ids=lambda them: them[0])
def test_commands_run_and_print_what_the_page_shows(commands: list[str]) -> None:
    script = shlex.split(commands[0])[0]
    options = [option for command in commands for option in shlex.split(command)[1:]]
    done = subprocess.run(
        [sys.executable, script, *options, *shlex.split(TINY[Path(script).name])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = set(re.findall(r"^\| ([^|]+) \|", done.stdout, re.MULTILINE))
    for command in commands:
        shown = PAGE.partition(command)[2].partition(".venv/bin/python")[0]
        numbers = re.findall(r"^\| ([^|]+) \| [^|]+\d[^|]* \|", shown, re.MULTILINE)
        assert numbers, command
        only = re.search(r'--only "(.*?)"', command)
        assert set(numbers) <= {one for one in printed if only is None or only[1] in one}, command
