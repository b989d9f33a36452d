"""The mutation script names exactly the mutants that a weak test lets live, or does not reach."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

MODULE = '''"""Not a rule."""

import logging
from functools import cache

log = logging.getLogger(__name__)
LIMIT = 3


@cache
def is_small(value: int) -> bool:
    log.debug("1 rule")
    return value < LIMIT


class Names:
    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, name: str) -> None:
        if name and not name.startswith("_"):
            self.names.append(name)
        else:
            raise ValueError("no name of %d letters" % 1)

    def clear(self) -> None:
        if self.names:
            self.names.clear()
            return
        return

    def __repr__(self) -> str:
        return "Names" if self.names else ""
'''

TEST = """
import sys
sys.path.insert(0, {folder!r})
import pytest

from small import Names, is_small

def test_limit():
    assert is_small(2)
    assert not is_small(4)

def test_names():
    names = Names()
    names.add("a")
    assert names.names == ["a"]
    with pytest.raises(ValueError):
        names.add("")
"""

SURVIVORS = """\
small.py:7   3 → 4
  - LIMIT = 3
  + LIMIT = 4
small.py:13 is_small  < → <=
  - return value < LIMIT
  + return value <= LIMIT
small.py:27 Names.clear  no test reaches: if self.names:
small.py:28 Names.clear  no test reaches: self.names.clear()
small.py:29 Names.clear  no test reaches: return
"""


@pytest.fixture
def mutate(tmp_path: Path) -> list[str]:
    (tmp_path / "small.py").write_text(MODULE)
    (tmp_path / "test_small.py").write_text(TEST.format(folder=str(tmp_path)))
    (tmp_path / "areas.toml").write_text(
        f'[small]\nstrict = true\nmodules = ["{tmp_path}/small.py"]'
        f'\ntests = ["{tmp_path}/test_small.py"]\n'
    )
    (tmp_path / "equivalent.toml").write_text(
        f'[[mutant]]\nmodule = "{tmp_path}/small.py"\nfunction = "Names.add"\n'
        """line = 'if name and not name.startswith("_"):'
changes = ['"_" → ""', "and → or"]
reason = "neither is asked for here"
"""
    )
    script = Path(__file__).with_name("mutate.py")
    files = (
        "--areas-file",
        tmp_path / "areas.toml",
        "--equivalent-file",
        tmp_path / "equivalent.toml",
    )
    return [sys.executable, str(script), *map(str, files)]


def test_survivors_are_named(mutate: list[str]) -> None:
    done = subprocess.run(mutate, capture_output=True, text=True, check=False)
    print(done.stderr)
    *survivors, total = done.stdout.splitlines(keepends=True)
    assert "".join(survivors) == SURVIVORS
    assert total.startswith("small: 15 mutants, 2 survive, 4 no test reaches")
    assert done.returncode == 1


def test_an_entry_without_its_mutant_is_an_error(mutate: list[str], tmp_path: Path) -> None:
    module = tmp_path / "small.py"
    module.write_text(module.read_text().replace("if name and not", "if not"))
    done = subprocess.run(mutate, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such mutant" in done.stdout
    assert "and → or" in done.stdout
