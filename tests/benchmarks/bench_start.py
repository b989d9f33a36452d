"""What a run costs in which nothing changed, over HTTP into the embedded catalog: its start.

    python tests/benchmarks/bench_start.py [--rounds 9] [--beside OTHER/src]

Prints the median CPU of the process, the number of modules that it imports, and which packages and
modules cost most by themselves. With `--beside`, another source tree of the package takes turns.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import mlcat_ingest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_mlflow import QUIET, over_http, recipe
from benchmarks.measure import run, serving
from support.ports import free_port

TOP = 15
"""Packages and modules that are printed."""


def imports(command: list[str], env: dict[str, str]) -> dict[str, int]:
    """Return the modules that `command` imports, with the µs that each takes by itself."""
    profiled = {**os.environ, **env, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(command, check=True, capture_output=True, env=profiled, text=True)
    lines = (line.partition("import time:")[2].split("|") for line in done.stderr.splitlines())
    return {line[2].strip(): int(line[0]) for line in lines if line[0].strip().isdigit()}


def show(tree: str, cpu_s: list[float], costs: dict[str, int]) -> None:
    """Print what the starts of one source tree cost."""
    print(
        f"\n{tree}: {statistics.median(cpu_s):.3f} s of CPU, {len(costs)} modules, by cost in ms:"
    )
    packages = Counter[str]()
    for name, cost in costs.items():
        packages[name.partition(".")[0]] += cost
    for counted in (packages, Counter(costs)):
        print("  " + ", ".join(f"{name} {us / 1000:.0f}" for name, us in counted.most_common(TOP)))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--beside", metavar="SRC", help="another source tree of the package")
    chosen = parser.parse_args()
    store = argparse.Namespace(runs=100, width=20, workers=1, settle=60)
    trees = [str(Path(mlcat_ingest.__file__).parents[1]), *filter(None, [chosen.beside])]
    ours, port = [sys.executable, "-m", "mlcat_ingest"], free_port()
    with tempfile.TemporaryDirectory() as name, over_http(Path(name), store) as mlflow:
        serve = [*ours, "catalog", "serve", "--db", f"{name}/catalog.db", "--port", str(port)]
        with serving(serve, f"http://127.0.0.1:{port}", log=Path(name, "catalog.log")) as catalog:
            cpu_s: dict[str, list[float]] = {tree: [] for tree in trees}
            for number in range(chosen.rounds + 1):
                for instance, tree in enumerate(trees):
                    folder = Path(name, str(instance))
                    folder.mkdir(exist_ok=True)
                    config = f"instance: tree{instance}"
                    path = recipe(folder, mlflow.url, catalog.url, config, "")
                    env = {**QUIET, "PYTHONPATH": tree}
                    cost = run([*ours, "-q", str(path)], server=mlflow, env=env)
                    if number:  # the first one ingests the store
                        cpu_s[tree].append(cost.cpu_s)
            for instance, tree in enumerate(trees):
                command = [*ours, "-q", f"{name}/{instance}/recipe.yml"]
                show(tree, cpu_s[tree], imports(command, {**QUIET, "PYTHONPATH": tree}))


if __name__ == "__main__":
    main()
