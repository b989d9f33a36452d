"""Change one rule at a time, run the tests that reach it, and name the mutants that survive.

    .venv/bin/python tests/mutation/mutate.py [AREA…]

The areas are in `areas.toml`; in a strict one no mutant may survive, and tests have to reach every
one, or the exit status is 1.
Mutants that behave as the module does are in `equivalent.toml`, each with its reason; an entry that
matches no mutant is an error. The tests are collected once an area, and each mutant is a fork of
that process in which the functions have the code of the mutant.
"""

import argparse
import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeAlias, TypeVar

import pytest
from coverage import Coverage

sys.path.insert(0, str(Path(__file__).parents[1]))
from mutation.mutants import Mutant, mutants_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src/mlcat_ingest"

SURVIVED, KILLED, STUCK = 0, 1, 2
LEAST_CPU_S = 2
"""A test of a mutant is not stopped before, nor before ten times as long as it takes without."""

KILLER = "killer"
"""The file in which a fork leaves the name of the test that failed."""

STUCK_S = 15
"""A mutant whose tests compute nothing for so long waits for ever."""

LEAST_PROGRESS_S = 0.05

LATE_CPU_S = 100
"""Mutants that are imported anew run all tests of their area, and are not stopped before."""

PRELOADED = ("hypothesis", "orjson", "pydantic", "requests", "rich", "sqlalchemy.dialects.sqlite")
"""Imported before the forks that import the package anew."""

PYTEST = (
    *("-qq", "-s", "-o", "addopts=--import-mode=importlib", "-o", "timeout=0"),
    *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:schemathesis"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    # Nobody reads why a mutant fails; to say it well takes longer than many a test.
    *("--assert=plain", "--tb=native"),
)

NewCodes: TypeAlias = list[tuple[FunctionType, CodeType]]
Item = TypeVar("Item")


@dataclass
class Area:
    """Modules, the tests that judge their mutants, and the mutants by number.

    `late` are the mutants of code that runs before the tests do: they need the module anew.
    `unreached` are those of code that no test runs.
    """

    name: str
    tests: Sequence[str]
    strict: bool
    mutants: Sequence[Mutant]
    late: list[int] = field(default_factory=list)
    unreached: list[int] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)
    cpu_s: float = 0

    @property
    def arguments(self) -> list[str]:
        """The arguments of pytest."""
        return [*PYTEST, "-c", str(ROOT / "pyproject.toml"), *(str(ROOT / t) for t in self.tests)]


class Forks:
    """Runs mutants in forks of this process, several at once, and gathers those that survive."""

    def __init__(self, area: Area, jobs: int) -> None:
        self.survivors: list[int] = []
        self.kills: Counter[tuple[str, str]] = Counter()
        """How many mutants a test has killed, by the place of their function and its name."""
        self._area = area
        self._jobs = jobs
        self._running: dict[int, tuple[int, Path]] = {}

    def start(self, number: int, judge: Callable[[Path], int]) -> None:
        """Run `judge` in a fork once there is room; it may write which test fails into a file."""
        while len(self._running) >= self._jobs:
            self._reap()
        folder = Path(tempfile.mkdtemp(prefix="mutant"))
        child = os.fork()
        if child:
            self._running[child] = number, folder
            return
        status = KILLED
        with contextlib.suppress(BaseException):
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
            _be_silent(1, 2)
            _stop_when_stuck()
            _stop_after(LATE_CPU_S)
            status = judge(folder / KILLER)
        os._exit(status)

    def finish(self) -> list[int]:
        """Wait for the last mutants; return those that survived, in order."""
        while self._running:
            self._reap()
        return sorted(self.survivors)

    def _reap(self) -> None:
        child, status = os.wait()
        number, folder = self._running.pop(child)
        mutant = self._area.mutants[number]
        with contextlib.suppress(FileNotFoundError):
            self.kills[mutant.scope, (folder / KILLER).read_text()] += 1
        shutil.rmtree(folder, ignore_errors=True)
        place = place_of(mutant)
        if status == SURVIVED:
            self.survivors.append(number)
            print(f"{place} survives: {mutant.change}", file=sys.stderr)
        elif os.waitstatus_to_exitcode(status) != KILLED or number % 100 == 0:
            print(f"{place} ends with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)


class Judge:
    """A plugin of pytest that runs, for each mutant of an area, the tests that reach it."""

    def __init__(self, area: Area, jobs: int) -> None:
        """Start to notice which lines run before the tests do."""
        self._area = area
        self._forks = Forks(area, jobs)
        self._failure = ""
        self._imports = _coverage(area)
        self._imports.start()

    def pytest_sessionstart(self) -> None:
        """Try the same examples for every mutant, and do not look for the smallest that fails."""
        search_briefly()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that a test failed."""
        if report.failed:
            self._failure = f"{report.nodeid}: {report.longreprtext}"

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests without a mutant, then the mutants."""
        self._imports.stop()
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        at_import = _lines_by_file(self._imports)
        gc.unfreeze()  # `conftest.py` hides all functions from `gc.get_objects`
        reached = in_fork(lambda: self._reach(session.items))
        items = {item.nodeid: item for item in session.items}
        functions = _functions_by_code({str(mutant.path) for mutant in self._area.mutants})
        gc.freeze()
        for number, mutant in enumerate(self._area.mutants):
            path = str(mutant.path)
            lines = set(range(mutant.first_line, mutant.last_line + 1))
            names = [
                name for name, (_, by) in reached.items() if lines.intersection(by.get(path, ()))
            ]
            is_late = mutant.at_import or not lines.isdisjoint(at_import.get(path, ()))
            if not is_late and not names:
                self._area.unreached.append(number)
                continue
            codes = _new_codes(mutant, functions)
            if is_late or not codes:
                self._area.late.append(number)
                continue
            # First those that soon killed other mutants of this function, then the fastest.
            names.sort(
                key=lambda name: (
                    -self._forks.kills[mutant.scope, name] / reached[name][0],
                    reached[name][0],
                )
            )
            judged_by = [(items[name], reached[name][0]) for name in names]
            self._forks.start(number, partial(self._judge, codes, judged_by))
        self._area.survivors = self._forks.finish()
        return True

    def _reach(self, items: Sequence[pytest.Item]) -> dict[str, tuple[float, dict[str, list[int]]]]:
        """Return for each test how long it takes, in seconds, and the lines by file."""
        _be_silent(1)
        reached = {}
        caches = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
        for item, following in _with_next(items):
            for cache in caches:
                cache.cache_clear()
            cover = _coverage(self._area)
            start = time.process_time()
            cover.start()
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            cover.stop()
            if self._failure:
                raise pytest.UsageError(f"fails without a mutant: {self._failure}")
            reached[item.nodeid] = time.process_time() - start, _lines_by_file(cover)
        return reached

    def _judge(
        self, codes: NewCodes, tests: Sequence[tuple[pytest.Item, float]], killer: Path
    ) -> int:
        for function, code in codes:
            function.__code__ = code
        for (item, cpu_s), following in _with_next(tests):
            _stop_after(LEAST_CPU_S + 10 * cpu_s)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following and following[0])
            if self._failure:
                killer.write_text(item.nodeid)
                return KILLED
        return SURVIVED


class Brief:
    """A plugin of pytest for mutants that are imported anew."""

    def pytest_sessionstart(self) -> None:
        """Try the same examples for every mutant, and do not look for the smallest that fails."""
        search_briefly()


def search_briefly() -> None:
    """Let Hypothesis try the same examples each time, and not shrink them."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    brief = settings(settings.default, derandomize=True, database=None, phases=phases)
    settings.register_profile("mutation", brief)
    settings.load_profile("mutation")


def _with_next(items: Sequence[Item]) -> Iterator[tuple[Item, Item | None]]:
    return zip(items, (*items[1:], None), strict=True)


def _coverage(area: Area) -> Coverage:
    paths = sorted({str(mutant.path) for mutant in area.mutants})
    cover = Coverage(data_file=None, config_file=False, include=paths)
    cover.set_option("run:disable_warnings", ["no-data-collected"])
    return cover


def _lines_by_file(cover: Coverage) -> dict[str, list[int]]:
    data = cover.get_data()
    return {path: data.lines(path) or [] for path in data.measured_files()}


def _functions_by_code(paths: Container[str]) -> dict[CodeType, list[FunctionType]]:
    functions: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in paths:
            functions.setdefault(one.__code__, []).append(one)
    return functions


def _new_codes(mutant: Mutant, functions: Mapping[CodeType, list[FunctionType]]) -> NewCodes:
    """Return the functions whose code a mutant changes; none where they need a new module."""
    codes: NewCodes = []
    mutated: dict[tuple[str, int], list[CodeType]] = {}
    for code in _codes(_compile(mutant)):
        mutated.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
    for code in functions:
        new = mutated.get((code.co_qualname, code.co_firstlineno), [])
        if code.co_filename != str(mutant.path) or not new or code in new:
            continue
        if len(new) > 1 or len(new[0].co_freevars) != len(code.co_freevars):
            return []
        codes += [(function, new[0]) for function in functions[code]]
    return codes


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _compile(mutant: Mutant) -> CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(mutant.source, mutant.path, "exec", dont_inherit=True)


def judge_anew(area: Area, mutant: Mutant, _: Path) -> int:
    """Run all tests of an area in this process, which imports the mutant."""
    usual = SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> CodeType | None:
        return _compile(mutant) if self.path == str(mutant.path) else usual(self, name)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
    return SURVIVED if pytest.main([*area.arguments, "-x"], [Brief()]) == 0 else KILLED


def in_fork(call: Callable[[], Any]) -> Any:
    """Return what `call` returns in a fork of this process, as JSON has it.

    Raises:
        SystemExit: it failed; its traceback is on standard error.
    """
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if not child:
            status = 1
            try:
                answer.write(json.dumps(call()).encode())
                answer.flush()
                status = 0
            except BaseException:  # noqa: BLE001 - also the exit of pytest
                traceback.print_exc()
            os._exit(status)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(2)
        answer.seek(0)
        return json.load(answer)


def _stop_when_stuck() -> None:
    used = time.process_time()

    def look(*_: object) -> None:
        nonlocal used
        before, used = used, time.process_time()
        if used - before < LEAST_PROGRESS_S:
            os._exit(STUCK)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, STUCK_S, STUCK_S)


def _stop_after(cpu_s: float) -> None:
    """Let the system end this process once it has used so much."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _be_silent(*streams: int) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(silence, stream)


def try_mutants(area: Area, jobs: int) -> None:
    """Fill in which mutants of an area survive."""
    start = _cpu_s()

    def collect_and_judge() -> tuple[list[int], list[int], list[int]]:
        os.dup2(2, 1)  # of pytest's words, only those about a failure are of interest
        status = pytest.main(area.arguments, [Judge(area, jobs)])
        if status:
            raise RuntimeError(f"pytest ends with {status}")
        return area.late, area.unreached, area.survivors

    area.late, area.unreached, area.survivors = in_fork(collect_and_judge)
    forks = Forks(area, jobs)
    for number in area.late:
        forks.start(number, partial(judge_anew, area, area.mutants[number]))
    area.survivors = sorted((*area.survivors, *forks.finish()))
    area.cpu_s = _cpu_s() - start


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Equivalent:
    """Mutants of one line that behave as the module does."""

    module: str
    function: str
    line: str
    changes: Sequence[str]
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        """Return whether a mutant is one of them."""
        return (
            (mutant.path == PACKAGE / self.module)
            and (mutant.function, mutant.before) == (self.function, self.line)
            and mutant.change in self.changes
        )


def areas_of(file: Path, equivalents: Sequence[Equivalent]) -> dict[str, Area]:
    """Return the areas that a file declares, without the equivalent mutants.

    Raises:
        SystemExit: an equivalent mutant does not exist.
    """
    unused = {(id(entry), change): entry for entry in equivalents for change in entry.changes}
    areas = {}
    for name, declared in tomllib.loads(file.read_text()).items():
        mutants = []
        for path in _files(declared["modules"]):
            for mutant in mutants_of(path):
                same = [one for one in equivalents if one.covers(mutant)]
                for one in same:
                    unused.pop((id(one), mutant.change), None)
                if not same:
                    mutants.append(mutant)
        areas[name] = Area(name, declared["tests"], declared.get("strict", False), mutants)
    if unused:
        for (_, change), entry in unused.items():
            print(f"no such mutant: {entry.module} {entry.function}: {entry.line}: {change}")
        raise SystemExit(2)
    return areas


def _files(modules: Sequence[str]) -> Iterator[Path]:
    for module in modules:
        path = PACKAGE / module
        yield from sorted(path.glob("*.py")) if path.is_dir() else [path]


def place_of(mutant: Mutant) -> str:
    """Return file and line of a mutant."""
    path = mutant.path
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    return f"{place}:{mutant.line}"


def _is_at(mutant: Mutant, places: Sequence[str] | None) -> bool:
    return not places or place_of(mutant).endswith(tuple(places))


def report(area: Area) -> None:
    """Print the survivors of an area, the lines that no test reaches, and the totals."""
    for number in area.survivors:
        mutant = area.mutants[number]
        print(f"{place_of(mutant)} {mutant.function}  {mutant.change}")
        print(f"  - {mutant.before}\n  + {mutant.after}")
    for line in dict.fromkeys(
        f"{place_of(mutant)} {mutant.function}  no test reaches: {mutant.before}"
        for mutant in (area.mutants[number] for number in area.unreached)
    ):
        print(line)
    print(
        f"{area.name}: {len(area.mutants)} mutants, {len(area.survivors)} survive,"
        f" {len(area.unreached)} no test reaches ({area.cpu_s:.0f} s of CPU)",
        flush=True,
    )


def main() -> int:
    """Return 1 if a mutant survives in a strict area, or no test reaches it, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("areas", nargs="*", help="all of `areas.toml` if none is named")
    parser.add_argument("--only", nargs="*", help="mutants at these places: urn.py:12")
    parser.add_argument("--areas-file", type=Path, default=HERE / "areas.toml")
    parser.add_argument("--equivalent-file", type=Path, default=HERE / "equivalent.toml")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    declared = tomllib.loads(options.equivalent_file.read_text()).get("mutant", [])
    areas = areas_of(options.areas_file, [Equivalent(**entry) for entry in declared])
    for module in PRELOADED:
        importlib.import_module(module)
    chosen = [areas[name] for name in options.areas or areas]
    for area in chosen:
        area.mutants = [one for one in area.mutants if _is_at(one, options.only)]
        try_mutants(area, options.jobs)
        report(area)
    return int(any(area.strict and (area.survivors or area.unreached) for area in chosen))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of a set decides nothing, or it decides the same for every mutant.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606 - this very script
    sys.exit(main())
