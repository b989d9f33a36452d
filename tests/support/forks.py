"""Forks programs from one process that has imported what they need already.

An import of MLflow's server, or of DataHub's command line, takes seconds of CPU. A fork runs the
same program with arguments, a folder, an environment and streams of its own.
"""

import atexit
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_LOOP: Final = """
import json, os, select, signal, sys

children = {}
heard, wakes = os.pipe()
for end in (heard, wakes):
    os.set_blocking(end, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

def reap():
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with open(children[pid] + ".tmp", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))
        os.rename(children[pid] + ".tmp", children.pop(pid))

def become(order):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, path in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])

orders = b""
while True:
    ready, _, _ = select.select([0, heard], [], [])
    if heard in ready:
        os.read(heard, 4096)
        reap()
    if 0 not in ready:
        continue
    text = os.read(0, 65536)
    if not text:
        break
    orders += text
    while b"\\n" in orders:
        line, orders = orders.split(b"\\n", 1)
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            become(order)
            run(order["arguments"])
            sys.exit(0)
        children[child] = order["status"]
        os.write(1, b"%d\\n" % child)
for child in children:
    os.killpg(child, signal.SIGKILL)
"""


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A process of another one's; looks like a `subprocess.Popen`."""

    pid: int
    status_file: Path

    def poll(self) -> int | None:
        """Return its exit status once it has ended."""
        try:
            return int(self.status_file.read_text())
        except FileNotFoundError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status when it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not in `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.02)
        return status

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class Forks:
    """A process that has run `program`, and calls its function `run(arguments)` in forks."""

    def __init__(self, python: Path, program: str, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._made = 0
        self._parent = subprocess.Popen(
            [python, "-c", f"{program}\n{_LOOP}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder.name,
            env=self._env,
            start_new_session=True,
        )
        atexit.register(self.close)

    def fork(
        self,
        arguments: Sequence[str],
        cwd: Path,
        out: Path,
        *,
        err: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Start the program; what it prints is appended to `out` and `err`, by default one file."""
        self._made += 1
        status_file = Path(self._folder.name) / str(self._made)
        order = {
            "arguments": list(arguments),
            "cwd": str(cwd),
            "out": str(out),
            "err": str(err or out),
            "env": dict(self._env if env is None else env),
            "status": str(status_file),
        }
        orders, replies = _ends(self._parent)
        orders.write(json.dumps(order).encode() + b"\n")
        orders.flush()
        reply = replies.readline()
        if not reply:
            raise RuntimeError(f"the process that forks has ended: {self._parent.wait()}")
        return ForkedProcess(int(reply), status_file)

    def close(self) -> None:
        """End the process, and what it has forked."""
        for end in _ends(self._parent):
            end.close()
        self._parent.wait()
        self._folder.cleanup()


def _ends(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
