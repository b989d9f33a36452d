"""Runs seeds of the simulation: many, on several processes, or one with its steps."""

import argparse
import logging
import resource
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from simulation.history import FailedSeedError, run_seed, simulation  # noqa: E402 - found there

CHUNK = 250


def run_seeds(first: int, count: int) -> list[str]:
    """Run `count` seeds from `first`, and return what the failed ones say."""
    logging.disable(logging.CRITICAL)
    failed = []
    with simulation():
        for seed in range(first, first + count):
            try:
                run_seed(seed)
            except FailedSeedError as error:
                failed.append(str(error))
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--trace", action="store_true", help="print its steps")
    options = parser.parse_args()
    if options.seed is not None:
        return _run_one(options.seed, trace=options.trace)
    began = time.monotonic()
    starts = range(options.first, options.first + options.seeds, CHUNK)
    ends = options.first + options.seeds
    failures = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        counts = [min(CHUNK, ends - start) for start in starts]
        for failed in pool.map(run_seeds, starts, counts):
            failures += len(failed)
            for text in failed:
                print(text, flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(
        f"{options.seeds} seeds from {options.first}, {failures} failed: "
        f"{time.monotonic() - began:.0f} s, {cpu_s:.0f} s of CPU"
    )
    return 1 if failures else 0


def _run_one(seed: int, *, trace: bool) -> int:
    logging.disable(logging.CRITICAL)
    with simulation():
        try:
            steps, failure = run_seed(seed), None
        except FailedSeedError as error:
            steps, failure = list(error.trace), error
    if trace:
        print("\n".join(steps))
    if failure is None:
        print(f"seed {seed}: {len(steps)} steps, as it should be")
        return 0
    if trace:
        traceback.print_exception(failure.__cause__)
    print(failure)
    return 1


if __name__ == "__main__":
    sys.exit(main())
