"""A third of all requests to the catalog meets a fault: what arrives is the same, counted once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.fault_world import REFUSED, Origin, World, assert_sums, world
from support.faults import AFTER, BEFORE, STALLS, Faults


@dataclass
class Pair:
    """Two worlds of one history: one whose catalog is well, and one whose is not."""

    well: World
    ill: World


@pytest.fixture
def pair(origin: Origin, tmp_path: Path) -> Iterator[Pair]:
    with world(tmp_path / "well", origin) as well, world(tmp_path / "ill", origin) as ill:
        yield Pair(well, ill)


def counted(report: dict[str, Any]) -> dict[str, Any]:
    """Return what of a report may not depend on faults."""
    names = ("entities", "records", "conflicts", "unverified", "without_base")
    more = ("kept_aspects", "dead_letters", "failed_records", "rejected", "notes", "exit_code")
    return {
        **{name: report[name] for name in (*names, *more)},
        "evaluation": report["evaluation"],
        "lineage": report["lineage"],
    }


def test_faults_change_nothing_of_what_arrives_or_of_what_is_counted(
    pair: Pair, fault_seed: int
) -> None:
    for step in range(3):
        refused = REFUSED.encode() if step < 2 else None
        faults = Faults("", fault_seed + step, stalls=step == 0, refused=refused)
        well = pair.well.ingest(Faults("", refused=refused))
        ill = pair.ill.ingest(faults)
        kinds = {*BEFORE, *AFTER, *(STALLS if step == 0 else ())}
        assert step == 2 or set(faults.met) == kinds, faults.met
        assert counted(ill) == counted(well)
        # Equal values too are written again where the answer to a write was lost.
        assert ill["proposals_sent"] >= well["proposals_sent"]
        assert_sums(ill)
        assert pair.ill.letters() == pair.well.letters()
        assert bool(pair.ill.letters()) == (refused is not None)
        assert pair.ill.contents() == pair.well.contents()
        for one in (pair.well, pair.ill) if step == 0 else ():
            one.somebody_edits()
            one.source_changes()
    last = pair.ill.ingest(None, "--full")
    assert last["proposals_sent"] == 0
