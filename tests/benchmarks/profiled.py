"""The command, with a profile of its threads: adds to a file the share of each stage of their CPU.

    python tests/benchmarks/profiled.py shares.json recipe.yml

The profiler adds to the cost of each call, so that stages of many small calls seem larger.
"""

import cProfile
import json
import pstats
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from mlcat_ingest.core import resources

T = TypeVar("T")

_start_thread = resources.start_thread
_profiles: list[cProfile.Profile] = []


def start_profiled(
    work: Callable[[], T],
    name: str,
    on_error: Callable[[BaseException], None] | None = None,
) -> Future[T]:
    """Start a thread of the command with a profile of its own, by the clock of its CPU."""

    def profiled() -> T:
        profile = cProfile.Profile(time.thread_time)
        _profiles.append(profile)
        return profile.runcall(work)

    return _start_thread(profiled, name, on_error)


# Before modules import it by its name.
resources.start_thread = start_profiled

from mlcat_ingest.cli.main import call  # noqa: E402
from mlcat_ingest.client.rest.emitter import Emitter  # noqa: E402
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator  # noqa: E402
from mlcat_ingest.pipeline.merge import entity  # noqa: E402
from mlcat_ingest.pipeline.read import pages  # noqa: E402
from mlcat_ingest.pipeline.state.database import RunDatabase  # noqa: E402
from mlcat_ingest.pipeline.write.conflicts import PermittedReads  # noqa: E402
from mlcat_ingest.sources.mlflow import mapping  # noqa: E402
from mlcat_ingest.sources.mlflow.read.database import rows  # noqa: E402
from mlcat_ingest.sources.mlflow.select.workspace import WorkspaceReading  # noqa: E402
from mlcat_ingest.sources.mlflow.values import joined  # noqa: E402

STAGES: dict[str, list[Callable[..., Any]]] = {
    "rows of runs, made into records": [rows.load_runs],
    "relations between records": [WorkspaceReading._relate, WorkspaceReading._join],
    "digests of records": [joined._record_digest],
    "mapping": [mapping.map_record],
    "search for credentials": [pages._without_credentials],
    "merge": [entity.merge_entity],
    "encoding of requests": [Emitter._encode_all],
    "requests": [Emitter._send, PermittedReads.read, Evaluator._evaluate],
    "state": [RunDatabase.read, RunDatabase.select, RunDatabase.change, RunDatabase.save],
}
"""What each stage is called, and the functions that do it; none calls another one of them."""


def shares() -> dict[str, float]:
    """Return the share of each stage of the CPU of all threads, and that of all other code."""
    # What typeshed does not know of them.
    stats: Any = pstats.Stats(*_profiles)
    known, total = stats.stats, stats.total_tt
    result = {}
    for stage, functions in STAGES.items():
        codes = [function.__code__ for function in functions]
        keys = [(code.co_filename, code.co_firstlineno, code.co_name) for code in codes]
        result[stage] = sum(known[key][3] for key in keys if key in known) / total
    return {**result, "other": 1 - sum(result.values())}


def main() -> None:
    """Run the command, and write what its threads did."""
    _, target, *arguments = sys.argv
    status = call(arguments)
    Path(target).write_text(json.dumps(shares()))
    sys.exit(status)


if __name__ == "__main__":
    main()
