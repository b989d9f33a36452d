"""Changes that are often asked for touch three files of src at most, those that CONTRIBUTING names.

Each patch in `trials` is such a change, with a test of its own, which runs in a copy of the tree.
Its first line is the name of the change in CONTRIBUTING's table.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.venvs import REPOSITORY

PATCHES = sorted(Path(__file__).with_name("trials").glob("*.patch"))
PACKAGE = "src/mlcat_ingest/"
OWN_TEST = "tests/test_trial.py"
MOST_FILES = 3
REFRESH = """
To make {patch} anew, in a clean working tree:
    git apply --reject {patch}    # then make by hand what its *.rej files hold, and delete these
    .venv/bin/pytest {test}
    git add --intent-to-add {test}
    (head -2 {patch}; git diff -U1 -- src {test}) > trial.patch && mv trial.patch {patch}
    git checkout -- src && git rm --cached {test} && rm {test}
"""

trials = pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)


def change_of(patch: Path) -> str:
    return patch.read_text("utf-8").splitlines()[0]


def files_of(patch: Path) -> set[str]:
    """Return the files that a patch changes, or makes."""
    return set(re.findall(r"^\+\+\+ b/(.+)$", patch.read_text("utf-8"), re.MULTILINE))


def files_that_contributing_names(change: str) -> set[str]:
    lines = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines]
    ((_, code, _),) = [row for row in rows if row[0] == change]
    return {f"{PACKAGE}{name}" for name in re.findall(r"`([\w/]+\.\w+)`", code)}


def test_there_are_trials() -> None:
    assert len(PATCHES) == 4


@trials
def test_a_change_touches_the_few_files_that_contributing_names(patch: Path) -> None:
    touched = files_of(patch) - {OWN_TEST}
    assert touched == files_that_contributing_names(change_of(patch))
    assert len(touched) <= MOST_FILES


@trials
@pytest.mark.process
@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patches")
def test_a_change_passes_its_own_test(patch: Path, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "src", tmp_path / "src")
    (tmp_path / "tests").mkdir()
    for name in ("pyproject.toml", "tests/conftest.py", "tests/data", "tests/support"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    # Coverage would count each copy as a package of which little is run.
    unmeasured = {k: v for k, v in os.environ.items() if k != "COVERAGE_PROCESS_CONFIG"}
    environment = {
        **unmeasured,
        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent),
        "PYTHONPATH": str(tmp_path / "src"),
    }

    def done(*command: str) -> None:
        process = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        refresh = REFRESH.format(patch=patch.relative_to(REPOSITORY), test=OWN_TEST)
        assert process.returncode == 0, process.stdout + process.stderr + refresh

    done("git", "apply", str(patch))
    done(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", OWN_TEST)
