"""Forks programs from one process that has imported what they need already.

An import of MLflow's server, or of DataHub's command line, takes seconds of CPU. A fork runs the
same program with arguments, a folder, an environment and streams of its own.
"""

import atexit
import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.venvs import ROOT, locked

_LOOP: Final = """
import gc, json, os, select, signal, socket, sys

place = sys.argv[1]
listening = socket.socket(socket.AF_UNIX)
listening.bind(place)
listening.listen()
if os.fork():
    os._exit(0)  # it listens
os.setsid()
# A fork would copy all that has been imported, to collect its garbage when it ends.
gc.freeze()

users, children = {}, {}
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
        user, file = children.pop(pid)
        if user in users:
            with open(file + ".tmp", "w") as text:
                text.write(str(os.waitstatus_to_exitcode(status)))
            os.rename(file + ".tmp", file)

def leave(user):
    del users[user]
    user.close()
    for pid in [pid for pid, (owner, _) in children.items() if owner is user]:
        os.killpg(pid, signal.SIGKILL)

def become(order):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for one in (listening, *users):
        one.close()
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, path in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])

def fork(user, order):
    child = os.fork()
    if child == 0:
        become(order)
        run(order["arguments"])
        sys.exit(0)
    children[child] = (user, order["status"])
    user.sendall(b"%d\\n" % child)

def serve():
    while True:
        # Nobody may come: who started this can have been killed meanwhile.
        ready, _, _ = select.select([listening, heard, *users], [], [], None if users else 60)
        if not ready:
            return
        if heard in ready:
            os.read(heard, 4096)
            reap()
        if listening in ready:
            user = listening.accept()[0]
            users[user] = b""
            user.sendall(b"welcome\\n")
        for user in [one for one in ready if one in users]:
            text = user.recv(65536)
            if not text:
                leave(user)
                if not users:
                    return
                continue
            *orders, users[user] = (users[user] + text).split(b"\\n")
            for order in orders:
                fork(user, json.loads(order))

serve()
os.unlink(place)
"""


_WELCOME: Final = b"welcome\n"


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
    """A process that has run `program`, and calls its function `run(arguments)` in forks.

    All workers of one run of the tests share it; it ends with the last of them.
    """

    def __init__(self, python: Path, program: str, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._made = 0
        self._orders = _connection(python, program, env)
        self._replies = self._orders.makefile("rb")
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
        self._orders.sendall(json.dumps(order).encode() + b"\n")
        reply = self._replies.readline()
        if not reply:
            raise RuntimeError("the process that forks has ended")
        return ForkedProcess(int(reply), status_file)

    def close(self) -> None:
        """End what it has forked for this process."""
        self._replies.close()
        self._orders.close()
        self._folder.cleanup()


def _connection(python: Path, program: str, env: Mapping[str, str]) -> socket.socket:
    """Connect to the process that forks; it is started where there is none."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    what = hashlib.sha256(f"{python}\n{program}".encode()).hexdigest()[:8]
    place = Path(tempfile.gettempdir()) / f"forks-{run[:8]}-{what}"
    ROOT.mkdir(exist_ok=True)
    with locked(ROOT / f".forks-{what}.lock"):
        try:
            return _welcomed(place)
        except OSError:
            place.unlink(missing_ok=True)  # of one that was killed
        with tempfile.TemporaryFile("w+") as errors:
            started = subprocess.run(
                [python, "-c", f"{program}\n{_LOOP}", place],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=place.parent,
                env=dict(env),
                check=False,
            )
            errors.seek(0)
            assert started.returncode == 0, errors.read()
        return _welcomed(place)


def _welcomed(place: Path) -> socket.socket:
    """Connect; raise `OSError` where nobody listens, or ends just now."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(place))
        if connection.recv(64) != _WELCOME:
            raise ConnectionError(f"nobody answers at {place}")
    except OSError:
        connection.close()
        raise
    return connection
