"""What `end_run` costs with the hook and without it, interleaved, against a store of its own.

    python tests/benchmarks/bench_hooks.py [RUNS]

The catalog is one that takes connections and never answers, so a hook that waited for it would be
seen. Each kind ends RUNS runs in a process of its own; medians and the slowest tenth are printed.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_ENDS = """
import json, sys, time
import mlflow
took = []
for _ in range(int(sys.argv[1])):
    mlflow.start_run()
    began = time.perf_counter()
    mlflow.end_run()
    took.append(1000 * (time.perf_counter() - began))
print(json.dumps(took))
"""
ROUNDS = 3


def ended(folder: Path, runs: int, hook: dict[str, str]) -> list[float]:
    """Return how long each `end_run` took, in milliseconds."""
    done = subprocess.run(
        [sys.executable, "-c", _ENDS, str(runs)],
        cwd=folder,
        env={
            **os.environ,
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            **hook,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found[1:]  # the first one opens the store


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        socket.create_server(("127.0.0.1", 0), backlog=64) as hole,
    ):
        folder = Path(name)
        server = f"http://127.0.0.1:{hole.getsockname()[1]}"
        hook = {"MLCAT_HOOK": "1", "MLCAT_SERVER": server, "MLCAT_SPOOL": str(folder / "spool")}
        took: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(ROUNDS):
            took["without"] += ended(folder, runs, {})
            took["with"] += ended(folder, runs, hook)
    for kind, times in took.items():
        slowest = statistics.quantiles(times, n=10)[-1]
        print(f"end_run {kind:<8} median {statistics.median(times):6.1f} ms, p90 {slowest:6.1f} ms")


if __name__ == "__main__":
    main()
