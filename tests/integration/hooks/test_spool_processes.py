"""One spool and many real processes: forked writers, killed writers, drains at once."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mlcat_ingest.hooks.spool import Event, EventSpool, read_lines

WRITERS = 200

# Says each id once it may be believed: a line is in the pipe only after `put` has returned.
_WRITES = """
import sys
from pathlib import Path
from mlcat_ingest.hooks.spool import Event
from mlcat_ingest.hooks.spool import EventSpool, read_lines
spool = EventSpool(Path(sys.argv[1]))
for number in range(10**6):
    spool.put(Event(f"r{number}"))
    print(f"r{number}", flush=True)
"""

_DRAINS = """
import sys
from pathlib import Path
from mlcat_ingest.hooks.spool import EventSpool, read_lines
spool = EventSpool(Path(sys.argv[1]))
while spool.pending():
    with spool.drain_lock() as mine:
        found = spool.claim(7, bool) if mine else []
        for one in found:
            print(one.event.run_id, flush=True)
        spool.delete([one.name for one in found])
"""


def forked(work: Callable[[], object]) -> int:
    """Run `work` in a forked process that leaves without any clean-up; return its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_writers_and_drains_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path / "spool")
    spool.put(Event("parent"))
    children = [forked(lambda n=n: spool.put(Event(f"r{n}"))) for n in range(WRITERS)]  # type: ignore[misc]
    drains = [
        subprocess.Popen(
            [sys.executable, "-c", _DRAINS, str(spool.folder)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for child in children:
        os.waitpid(child, 0)
    claimed = Counter(line for one in drains for line in one.communicate(timeout=60)[0].split())
    with spool.drain_lock():  # the drains may have ended before the last writer
        claimed.update(one.event.run_id for one in spool.claim(WRITERS + 1, bool))
    assert claimed == Counter(["parent", *(f"r{n}" for n in range(WRITERS))])


def test_what_was_put_outlives_a_kill_and_nothing_is_half_there(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITES, str(folder)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        message = [writer.stdout.readline().strip() for _ in range(20)]
        time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        message += writer.stdout.read().split()
    spool = EventSpool(folder)
    with spool.drain_lock():
        found = {one.event.run_id for one in spool.claim(10**6, bool)}
    assert set(message) <= found
    assert len(found) - len(message) <= 1  # written, and killed before it could say so
    assert read_lines(spool.dropped_file) == []
