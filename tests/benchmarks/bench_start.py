"""What a run costs in which nothing changed, into the embedded catalog: its start.

    python tests/benchmarks/bench_start.py [--database] [--rounds 9] [--beside OTHER/src]

MLflow is read over HTTP, or from its SQLite file. Prints the median CPU of the process, the number
of modules that it imports, and which packages and modules cost most by themselves. With `--beside`,
another source tree of the package takes turns.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import mlcat_ingest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_mlflow import QUIET, Bench, Ours, embedded, mlflow, options
from benchmarks.measure import run

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
    parser.add_argument("--database", action="store_true", help="read MLflow's SQLite file")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--beside", metavar="SRC", help="another source tree of the package")
    chosen = parser.parse_args()
    trees = [str(Path(mlcat_ingest.__file__).parents[1]), *filter(None, [chosen.beside])]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        bench = Bench(Path(name), options(["--runs", "100"]))
        opened = bench.stored if chosen.database else bench.served
        store = stack.enter_context(opened(runs=bench.runs))
        catalog = stack.enter_context(embedded(bench.folder))
        commands = {}
        for instance, tree in enumerate(trees):
            folder = bench.folder / tree.replace("/", "-")
            folder.mkdir()
            source = mlflow(store, f", instance: tree{instance}")
            commands[tree] = Ours(folder, source, catalog).command
        cpu_s: dict[str, list[float]] = {tree: [] for tree in trees}
        for number in range(chosen.rounds + 1):
            for tree, command in commands.items():
                cost = run(command, server=store, env={**QUIET, "PYTHONPATH": tree})
                if number:  # the first one ingests the store
                    cpu_s[tree].append(cost.cpu_s)
        for tree, command in commands.items():
            show(tree, cpu_s[tree], imports(command, {**QUIET, "PYTHONPATH": tree}))


if __name__ == "__main__":
    main()
