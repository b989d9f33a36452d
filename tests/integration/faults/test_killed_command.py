"""The command is killed at random moments and started again: in the end all is as if it never was.

A moment is a request that the catalog gets: before it is served, or right after, before its answer
is sent. Kills between any two steps of a run: `tests/simulation`.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlcat_ingest.testing.service import failing_service
from support.fault_world import Origin, Undisturbed, assert_sums, world
from support.faults import Faults

WAIT_S = 300

MODELS_IN_A_REQUEST = 10
"""Of two aspects at least each, in requests of 20 proposals."""


@dataclass
class Killer:
    """Kills a process at its `number`-th request; `moment` is before or after it is served."""

    faults: Faults
    process: "subprocess.Popen[bytes] | None" = None
    number: int = 0
    moment: str = ""

    def __post_init__(self) -> None:
        self.faults.before, self.faults.after = self.before, self.after

    def before(self, number: int) -> bool:
        if number == self.number and self.moment != "after":
            self._kill()
            return self.moment == "before"
        return True

    def after(self, number: int) -> None:
        if number == self.number and self.moment == "after":
            self._kill()

    def _kill(self) -> None:
        assert self.process is not None
        self.process.kill()


def start(recipe: Path, *options: str) -> "subprocess.Popen[bytes]":
    report = recipe.with_name("report.json")
    # Killed while it writes its coverage, it would leave half a file that is then warned about.
    unmeasured = {k: v for k, v in os.environ.items() if k != "COVERAGE_PROCESS_CONFIG"}
    return subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", str(recipe), "--report", str(report), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=recipe.parent,
        env=unmeasured,
    )


def models(contents: Iterable[str]) -> int:
    return sum(urn.startswith("urn:li:mlModel:") for urn in contents)


def run_and_kill(killer: Killer, recipe: Path, number: int, moment: str, *options: str) -> int:
    """Run the command, killed at its `number`-th request; return how it ended."""
    faults = killer.faults
    # No request comes before the process is known.
    killer.number, killer.moment = faults.seen + number, moment
    killer.process = start(recipe, "-q", *options)
    killer.process.communicate(timeout=WAIT_S)
    faults.wait_until_idle()
    return killer.process.returncode


def test_a_command_that_is_killed_and_started_again_does_all_of_it_once(
    origin: Origin,
    tmp_path: Path,
    undisturbed: Undisturbed,
    fault_seed: int,
    request: pytest.FixtureRequest,
) -> None:
    chosen = random.Random(fault_seed)
    kills = int(request.config.getoption("--kills"))
    everything = models(undisturbed.contents)
    with world(tmp_path / "ill", origin) as ill:
        faults = Faults("")
        faults.upstream = ill.catalog.url
        killer = Killer(faults)
        with failing_service(faults) as proxy:
            recipe = ill.recipe(proxy.url)
            options: tuple[str, ...] = ()
            while kills:
                # So many requests the run has to send at least.
                left = (everything - models(ill.contents())) // MODELS_IN_A_REQUEST
                number = chosen.randint(1, undisturbed.fewest + left)
                moment = chosen.choice(["before", "after", "in place of"])
                ended = run_and_kill(killer, recipe, number, moment, *options)
                if ended == 0 and not options:
                    # The one before was killed when all was done: only a full pass asks so much.
                    options = ("--full",)
                    continue
                assert ended == -signal.SIGKILL, (number, moment)
                kills -= 1
            there = models(ill.contents())
            last = ill.run(recipe)
        assert last["exit_code"] == 0
        assert_sums(last)
        assert last["entities"]["mlModel"]["created"] == everything - there
        assert (last["dead_letters"], ill.letters()) == (0, [])
        assert ill.contents() == undisturbed.contents
        again = ill.ingest(None, "--full")
        assert again["proposals_sent"] == 0
        assert again["records"] == undisturbed.report["records"]
        assert {kind: one["read"] for kind, one in again["entities"].items()} == {
            kind: one["read"] for kind, one in undisturbed.report["entities"].items()
        }
