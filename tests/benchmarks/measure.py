"""Measure whole processes: wall, CPU and peak memory of a command, and the CPU a server spent."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

# As a package that is installed and has run before: its modules are compiled once, not each time.
_COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}

_IDLE_CPU_S = 0.1
"""CPU that an idle server may spend in a second."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command cost: seconds, seconds of CPU, MiB at the peak, and the server's CPU.

    `counts` are numbers of requests and proposals, where they are known.

    Linux counts the memory of a new process from before it executes the command: a peak is never
    below that of the benchmark itself, which therefore imports little.
    """

    wall_s: float
    cpu_s: float
    peak_mib: float
    server_cpu_s: float
    counts: Mapping[str, int] = field(default_factory=dict)

    def __sub__(self, start: "Cost") -> "Cost":
        """Return the cost without the time and CPU of a start."""
        return replace(self, wall_s=self.wall_s - start.wall_s, cpu_s=self.cpu_s - start.cpu_s)

    def with_counts(self, **counts: int) -> "Cost":
        """Return the cost with further counts."""
        return replace(self, counts={**self.counts, **counts})


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, and the budget that the design gives it: `≤ 1.4`, or none."""

    name: str
    value: float
    unit: str
    budget: str = ""

    def __str__(self) -> str:
        """Return the row of a table of Markdown."""
        value = self.value
        shown = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
        cells = (self.name, f"{shown} {self.unit}".strip(), self.budget, self._met())
        return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")

    def _met(self) -> str:
        if not self.budget:
            return ""
        sign, limit = self.budget.split()
        ratio = self.value / float(limit.replace(",", ""))
        over = 1 - ratio if sign == "≥" else ratio - 1
        return "yes" if over <= 0 else f"no, by {100 * over:.0f} %"


def run(command: Sequence[str], *, server: "Server", env: Mapping[str, str] | None = None) -> Cost:
    """Run `command` to its end and return its cost; its children count, the server does not.

    Raises:
        RuntimeError: the command failed; its output is in the message.
    """
    before = server.cpu_s()
    started = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **_COMPILED, **(env or {})},
    )
    assert child.stdout is not None
    with child.stdout:
        output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        text = output.decode("utf-8", "replace")[-3000:]
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}\n{text}")
    return Cost(
        wall_s,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 1024,
        server.cpu_s() - before,
    )


@dataclass(frozen=True, slots=True)
class Server:
    """A server process and all that it started; `pid` is 0 where a file takes its place."""

    url: str
    pid: int

    def cpu_s(self) -> float:
        """Return the CPU seconds of the process and its living descendants."""
        family = _family(self.pid) if self.pid else []
        return sum(_cpu_ticks(pid) for pid in family) / TICKS_PER_S

    def settle(self, most_s: int) -> None:
        """Wait, so many seconds at most, until all processes have started: MLflow starts many."""
        for _ in range(most_s):
            before = self.cpu_s()
            time.sleep(1)
            if self.cpu_s() - before < _IDLE_CPU_S:
                return

    def peak_mib(self) -> float:
        """Return the most memory that the process itself has held, in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def serving(
    command: Sequence[str],
    url: str,
    *,
    health: str = "/health",
    env: Mapping[str, str] | None = None,
    log: Path,
) -> Iterator[Server]:
    """Start a server, wait until it answers, and end all of it on leaving the block."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **_COMPILED, **(env or {})},
        )
    try:
        _wait(child, url + health, log)
        yield Server(url, child.pid)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _wait(child: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    for _ in range(1_800):
        if child.poll() is not None:
            raise RuntimeError(f"the server ended:\n{log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"no answer at {url}:\n{log.read_text()[-3000:]}")


def _family(root: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                parents[int(entry.name)] = int(fields[1])
    family = [root]
    for pid in family:
        family.extend(child for child, parent in parents.items() if parent == pid)
    return family


def _cpu_ticks(pid: int) -> int:
    fields = _stat(pid)
    # utime, stime and those of the children already waited for.
    return sum(int(field) for field in fields[11:15]) if fields else 0


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, or none for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []
