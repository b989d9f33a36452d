"""In CI a skipped test fails, unless its reason is known to be no gap."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ENVIRON = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}


def outcome(folder: Path, text: str, **environ: str) -> str:
    """Run the tests in `text`; return the last line that pytest prints."""
    (folder / "test_one.py").write_text(f"import pytest\n{text}\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.skips"],
        cwd=folder,
        env={**ENVIRON, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()[-1]


SKIPPED = "def test_it():\n    pytest.skip('no such service')"
NO_MODULE = "pytest.importorskip('no_such_module')\ndef test_it(): ..."


@pytest.mark.parametrize("text", [SKIPPED, NO_MODULE])
def test_a_skip_passes_for_users_and_fails_in_ci(tmp_path: Path, text: str) -> None:
    assert "1 skipped" in outcome(tmp_path, text, MLCAT_REQUIRE_SERVICES="")
    in_ci = outcome(tmp_path, text, MLCAT_REQUIRE_SERVICES="1")
    assert "skipped" not in in_ci
    assert "1 failed" in in_ci or "1 error" in in_ci


def test_some_reasons_are_no_gap(tmp_path: Path) -> None:
    text = "def test_it():\n    pytest.skip('this machine has no IPv6: why')"
    assert "1 skipped" in outcome(tmp_path, text, MLCAT_REQUIRE_SERVICES="1")


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the tests in `folder` with the plugin that leaves folders out."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n e2e:\n compat:\n process:\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "support.left_out", *options],
        cwd=folder,
        env=ENVIRON,
        capture_output=True,
        text=True,
        check=False,
    )


def summary(folder: Path, *options: str) -> list[str]:
    """Return what pytest says at its end of the tests in `folder` that it left out."""
    done = run(folder, *options)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    return [line for line in lines if "they may need" in line or line.startswith("run them")]


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder with tests, some of which cannot be imported."""
    texts = {
        "docs": "def test_runs(): ...\n"
        "@pytest.mark.process\ndef test_starts(): ...\n"
        "@pytest.mark.e2e\ndef test_uses(): ...\n",
        "e2e": "assert False",
        "compat": "assert False",
    }
    for name, text in texts.items():
        (tmp_path / "tests" / name).mkdir(parents=True)
        (tmp_path / "tests" / name / f"test_{name}.py").write_text(f"import pytest\n{text}\n")
    return tmp_path


@pytest.mark.parametrize("processes", ["0", "2"])
def test_tests_and_folders_that_an_expression_left_out_are_named_with_their_command(
    tests: Path, processes: str
) -> None:
    expression = "not process and not e2e and not compat"
    counted, command = summary(tests, "-n", processes, "-m", expression)
    assert counted.startswith(
        "2 tests (1 e2e, 1 process) and all of tests/compat, tests/e2e, not counted: "
    )
    assert command.endswith(f'-m "not ({expression})"')


def test_folders_beside_the_one_that_was_asked_for_are_not_named(
    tests: Path,
) -> None:
    counted, _ = summary(tests, "-m", "not e2e and not compat", "tests/docs")
    assert counted.startswith("1 test (1 e2e): ")
    assert summary(tests, "tests/docs") == []


def test_folders_of_fast_tests_are_not_collected_where_slow_ones_are_chosen(tests: Path) -> None:
    (tests / "tests" / "unit").mkdir()
    (tests / "tests" / "unit" / "test_unit.py").write_text("assert False")
    (tests / "tests" / "e2e" / "test_e2e.py").write_text("def test_uses(): ...\n")
    counted, _ = summary(tests, "-m", "not (smoke or not e2e)")
    assert counted.startswith(
        "2 tests (1 other, 1 process) and all of tests/compat, tests/unit, not counted: "
    )


def test_a_test_whose_folder_would_be_left_out_is_refused(tests: Path) -> None:
    (tests / "tests" / "unit").mkdir()
    (tests / "tests" / "unit" / "test_unit.py").write_text(
        "import pytest\n@pytest.mark.e2e\ndef test_uses(): ...\n"
    )
    done = run(tests, "tests/unit")
    assert done.returncode == 4
    assert "has the markers ['e2e'], which tests/unit does not have" in done.stderr + done.stdout
