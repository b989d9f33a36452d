"""No figure of the code gets worse, and the limits follow those that get better."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from house.booking import booking_modules
from house.measure import (
    LIMITS,
    SETTINGS,
    Limit,
    Modules,
    booleans,
    measures_of_passes,
    measures_of_source,
    modules_in,
    modules_read_with,
    public_names,
)

OF_PASSES = [name for name in LIMITS if "_pass_" in name]
OF_SOURCE = [name for name in LIMITS if name not in OF_PASSES]


@cache
def of_source() -> Mapping[str, int]:
    return measures_of_source()


@cache
def of_passes() -> Mapping[str, int]:
    return measures_of_passes()


def test_every_figure_has_a_limit() -> None:
    assert of_source().keys() == set(OF_SOURCE)
    assert {*SETTINGS} == {"measures", "stages", "booking"}


@pytest.mark.parametrize("name", OF_SOURCE)
def test_a_figure_of_the_source_is_as_its_limit_says(name: str) -> None:
    assert LIMITS[name].problem(of_source()[name]) is None


@pytest.mark.process
def test_every_figure_of_passes_has_a_limit() -> None:
    assert of_passes().keys() == set(OF_PASSES)


@pytest.mark.process
@pytest.mark.parametrize("name", OF_PASSES)
def test_a_figure_of_passes_is_as_its_limit_says(name: str) -> None:
    assert LIMITS[name].problem(of_passes()[name]) is None


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (101, "101 is more than the limit, 100"),
        (100, None),
        (90, None),
        (89, "89 is so far below the limit, 100, that it has to be 94"),
    ],
)
def test_a_limit_goes_down_with_its_figure(now: int, problem: str | None) -> None:
    assert Limit(100, slack=10).problem(now) == problem


def package_of(folder: Path, **modules: str) -> Modules:
    """Return the modules of a package `app`, made in a folder."""
    (folder / "app").mkdir()
    for name, text in {"__init__": "", **modules}.items():
        (folder / "app" / f"{name}.py").write_text(text)
    return modules_in(folder)


def test_public_names_are_those_of_modules(tmp_path: Path) -> None:
    text = """
class A:
    def method(self): ...
if True:
    def b(): ...
try:
    async def c():
        def inner(): ...
except ImportError:
    class D: ...
def _private(): ...
def _imported(): ...
E = 1
"""
    modules = package_of(tmp_path, a=text, b="from app.a import _imported\n")
    assert public_names(modules) == 5


def test_booleans_are_parameters_and_fields(tmp_path: Path) -> None:
    text = """
class A:
    field: bool = False
    maybe: None | bool
    constant: ClassVar[bool]
    described: Annotated[bool, "why"]
    check: Callable[[str], bool]
    def method(self, a: bool, b: int, *, c: bool = True) -> bool:
        local: bool = a
        return local
"""
    assert booleans(package_of(tmp_path, a=text)) == 6


DEFINING = """
class Tally:
    def note(self) -> None: ...
    def add(self) -> bool:
        self._count += 1
        return True
    def drop(self) -> int:
        return self._database.change(1)
    def read(self) -> int:
        return self._count
"""


@pytest.mark.parametrize(
    "text",
    [
        "Tally().note()",
        "with Tally() as counts:\n    counts.add()",
        "def f(given: Tally | None):\n    given.drop()",
        "def f(context):\n    context.tally.note()",
        "def f(ledger):\n    counts = ledger.counts\n    g(counts.add)",
        "def f(ledger, other):\n    if (counts := other or ledger.counts):\n        counts.note()",
        "def f():\n    tally_of(1).add()",
        "class A:\n    def f(self, given: Tally):\n        self._a = given\n        self._a.note()",
    ],
)
def test_a_module_that_changes_an_instance_is_found(text: str, tmp_path: Path) -> None:
    assert booking_of(tmp_path, text) == {"app.book"}


@pytest.mark.parametrize(
    "text",
    [
        "from app.defining import Tally\nTally().read()",
        "def f(context):\n    context.tally.read()",
        "def f(context):\n    context.name.note()",
        "def f(context):\n    count = context.tally.read()\n    count.note()",
        "def f(other):\n    other.add()",
    ],
)
def test_a_module_that_changes_none_is_not_found(text: str, tmp_path: Path) -> None:
    assert booking_of(tmp_path, text) == set()


def booking_of(folder: Path, text: str) -> set[str]:
    """Return the modules that change a tally, of which others offer one."""
    modules = package_of(
        folder,
        defining=DEFINING,
        context="class Context:\n    tally: Tally\n    name: str\n",
        ledger="class Ledger:\n    def __init__(self):\n        self.counts = Tally()\n",
        function="def tally_of(number: int) -> Tally | None: ...\n",
        book=text,
    )
    return booking_modules(modules, ["Tally"])


def test_a_class_of_which_nothing_is_known_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="Tracker"):
        booking_modules(package_of(tmp_path, defining=DEFINING), ["Tally", "Tracker"])


def test_a_module_is_read_with_all_that_it_imports(tmp_path: Path) -> None:
    modules = package_of(
        tmp_path,
        top="import json\nfrom app import middle\nif TYPE_CHECKING:\n    import app.types\n",
        middle="def f():\n    from .bottom import name\n",
        bottom="from app import middle\n",
        types="",
        other="import app.top\n",
    )
    assert modules_read_with(modules, "app.top") == {
        "app.top",
        "app.middle",
        "app.bottom",
        "app.types",
    }
    with pytest.raises(LookupError, match=r"app\.gone"):
        modules_read_with(modules, "app.gone")
