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
        env={**os.environ, "PYTHONPATH": str(TESTS), "MLCAT_WITHOUT_EXTRAS": "", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()[-1]


SKIPPED = "def test_it():\n    pytest.skip('no such service')"
NO_MODULE = "pytest.importorskip('no_such_module')\ndef test_it(): ..."
NO_EXTRA = "pytest.importorskip('fsspec.no_such_part')\ndef test_it(): ..."


@pytest.mark.parametrize("text", [SKIPPED, NO_MODULE, NO_EXTRA])
def test_a_skip_passes_for_users_and_fails_in_ci(tmp_path: Path, text: str) -> None:
    assert "1 skipped" in outcome(tmp_path, text, MLCAT_REQUIRE_SERVICES="")
    in_ci = outcome(tmp_path, text, MLCAT_REQUIRE_SERVICES="1")
    assert "skipped" not in in_ci
    assert "1 failed" in in_ci or "1 error" in in_ci


def test_some_reasons_are_no_gap(tmp_path: Path) -> None:
    text = "def test_it():\n    pytest.skip('this machine has no IPv6: why')"
    assert "1 skipped" in outcome(tmp_path, text, MLCAT_REQUIRE_SERVICES="1")


def test_without_extras_their_tests_may_be_skipped_and_no_others(tmp_path: Path) -> None:
    environ = {"MLCAT_REQUIRE_SERVICES": "1", "MLCAT_WITHOUT_EXTRAS": "1"}
    assert "1 skipped" in outcome(tmp_path, NO_EXTRA, **environ)
    assert "1 error" in outcome(tmp_path, NO_MODULE, **environ)
