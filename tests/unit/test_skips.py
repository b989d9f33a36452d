"""In CI a skipped test fails, unless its reason is known to be no gap."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[1]


def outcome(folder: Path, text: str, **environ: str) -> str:
    """Run the tests in `text`; return the last line that pytest prints."""
    (folder / "test_one.py").write_text(f"import pytest\n{text}\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.skips", "-p", "no:randomly"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS), **environ},
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


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_tests_that_an_expression_left_out_are_counted_with_their_command(
    tmp_path: Path, processes: str
) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n"
        "def test_runs(): ...\n"
        "@pytest.mark.e2e\ndef test_left_out(): ...\n"
        "@pytest.mark.compat\ndef test_left_out_too(): ...\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n e2e:\n compat:\n")

    def summary(*options: str) -> list[str]:
        plugins = ("-p", "support.left_out", "-p", "no:randomly", "-n", processes)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins, *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
        return [line for line in lines if line.startswith(("2 tests", "run them"))]

    counted, command = summary("-m", "not (e2e or compat)")
    assert counted.startswith("2 tests (1 compat, 1 e2e): ")
    assert command.endswith('-m "not (not (e2e or compat))"')
    assert summary() == []
