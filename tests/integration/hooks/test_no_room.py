"""Training whose spool cannot be written, on real file systems that are full or read-only."""

import shutil
import subprocess

import pytest

from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog
from support.hooks import Bench, models
from support.training import HEARS_LATER, trains

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

# Mounts that nobody else sees, and that go with the process: one of 64 KiB that is full, with the
# spool's folders on it already, and an empty one that is read-only.
_MOUNTS = """
set -e
mount -t tmpfs -o size=64k tmpfs full
mkdir -p full/spool/new full/new-spool
cat /dev/zero > full/filler 2>/dev/null || true
mount -t tmpfs -o ro,size=64k tmpfs read-only
exec "$@"
"""
_ALONE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNTS, "sh")


@pytest.fixture
def mounts(bench: Bench) -> tuple[str, ...]:
    """Return what begins a command that has the mounts in the bench's folder."""
    for name in ("full", "read-only"):
        (bench.folder / name).mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("no unshare, so no file system of one's own")
    tried = subprocess.run(
        [*_ALONE, "true"], cwd=bench.folder, capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"no file system of one's own can be mounted: {tried.stderr}")
    return _ALONE


def test_a_spool_that_cannot_be_written_changes_nothing_of_training(
    bench: Bench, catalog: RunningCatalog, mounts: tuple[str, ...]
) -> None:
    file = bench.folder / "file"
    file.write_text("")
    hook = {"MLCAT_HOOK": "1", "MLCAT_RECIPE": str(bench.recipe), "MLCAT_HOOK_SEND": "0"}
    home = {"MLCAT_HOOK": "1", "MLCAT_SERVER": catalog.url, "MLCAT_HOOK_SEND": "0"}
    cases = {
        "full": ({**hook, "MLCAT_SPOOL": "full/spool"}, "No space left on device"),
        "full-and-new": ({**hook, "MLCAT_SPOOL": "full/new-spool"}, "No space left on device"),
        "read-only": ({**hook, "MLCAT_SPOOL": "read-only/spool"}, "Read-only file system"),
        "home": ({**home, "HOME": str(bench.folder / "read-only")}, "Read-only file system"),
        "no-folder": ({**hook, "MLCAT_SPOOL": str(file / "spool")}, "Not a directory"),
    }
    envs = {name: env for name, (env, _) in cases.items()}
    trained = trains(bench, {**envs, "no-hook": {}}, before=mounts)
    without = trained["no-hook"]
    assert (without.seen, without.warnings) == ((7, "trained\n", {"loss": 0.5}), [])
    for name, (_, reason) in cases.items():
        assert trained[name].seen == without.seen
        [warning] = trained[name].warnings
        assert HEARS_LATER in warning
        assert warning.endswith(f": {reason}")
    assert bench.spool.pending() == 0
    assert Pipeline(load_resolved(bench.recipe)).run().exit_code == 0
    ids = [one.run_id for one in trained.values()]
    assert models(catalog, ids) == ids


_FULL_AND_ROOM_AGAIN = """
import errno
from pathlib import Path
from mlcat_ingest.hooks.spool import Event
from mlcat_ingest.hooks.spool import EventSpool

spool = EventSpool(Path("full/spool"))
for _ in range(2):
    try:
        spool.put(Event("lost"))
    except OSError as error:
        print(errno.errorcode[error.errno])
print(sorted(one.name for one in spool.folder.iterdir()), spool.waiting())
Path("full/filler").unlink()
print(spool.put(Event("kept")), len(spool.waiting()))
"""


def test_a_full_disk_keeps_nothing_half_and_takes_events_once_there_is_room(
    bench: Bench, mounts: tuple[str, ...]
) -> None:
    done = bench.python(_FULL_AND_ROOM_AGAIN, before=mounts)
    assert done.stdout.splitlines() == ["ENOSPC", "ENOSPC", "['new'] []", "True 1"], done.stderr
