"""The units of a real server's work: the model against what was counted there, and our share."""

import sys
from collections.abc import Mapping
from operator import sub
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.bench_mlflow import Ours, counted, counting, datahub, mlflow
from benchmarks.generate import generate
from benchmarks.measure import Server
from benchmarks.server_units import UNITS, ServerModel

RUN_OF_FOUR = ("mlModelProperties", "browsePathsV2", "dataPlatformInstance", "ownership")
VERSION = ("mlModelProperties", "versionProperties", "subTypes")
VERSIONS = 16

MOST: Mapping[str, tuple[int, int]] = {
    "rows": (635, 0),
    "messages": (1_003, 0),
    "documents": (1_270, 0),
    "searches": (8, 3),
    "locking reads": (117, 0),
}
"""The units of a first and of a later ingest of the small lifelike store; they only go down."""

MOST_OF_DATAHUBS: Mapping[str, float] = {"rows": 0.71, "messages": 0.42, "documents": 0.535}
"""The share of the first in what `datahub ingest` costs the server.

Its threads send in no fixed order, which moves its documents by some of 2,398.
"""


def proposal(urn: str, aspect: str, value: object = None, *, run_id: bool = False) -> Any:
    return {
        "entityUrn": urn,
        "aspectName": aspect,
        "changeType": "UPSERT",
        "aspect": {"value": orjson.dumps(value).decode()},
        "systemMetadata": {"runId": "one"} if run_id else {},
    }


def run_of_four(*, with_run_id: tuple[str, ...] = (), without: str = "") -> dict[str, int]:
    """Return the units of one new run; an aspect can be left to the server."""
    names = [name for name in RUN_OF_FOUR if name != without]
    model = ServerModel()
    urn = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,run,PROD)"
    sent = [proposal(urn, name, name, run_id=name in with_run_id) for name in names]
    model.take(sent, queued=False)
    return model.units()


def version(number: int) -> list[Any]:
    urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,forest_{number},PROD)"
    order = {"versionSet": "urn:li:versionSet:(forest,mlModel)", "sortId": f"{number:04}"}
    return [proposal(urn, name, {**order, "of": name}) for name in VERSION]


def units_of(requests: list[list[Any]], *, queued: bool = False) -> dict[str, int]:
    model = ServerModel()
    for proposals in requests:
        model.take(proposals, queued=queued)
    return model.units()


def test_a_run_of_four_aspects_is_five_rows_and_eight_messages() -> None:
    units = run_of_four()
    assert (units["rows"], units["messages"]) == (5, 8)
    assert 8 - run_of_four(without="ownership")["messages"] == 3


def test_documents_are_doubled_by_run_ids_on_all_aspects() -> None:
    assert run_of_four()["documents"] == 5
    assert run_of_four(with_run_id=RUN_OF_FOUR)["documents"] == 10
    assert run_of_four(with_run_id=("ownership",))["documents"] == 6
    # The key has the system metadata of the first proposal.
    assert run_of_four(with_run_id=RUN_OF_FOUR[:1])["documents"] == 7


def test_an_aspect_that_is_left_to_the_server_is_a_locking_read() -> None:
    left = run_of_four(without="dataPlatformInstance")
    assert (left["locking reads"], left["rows"]) == (1, 5)
    assert run_of_four()["locking reads"] == 0


def test_versions_in_two_requests() -> None:
    others = [one for number in range(1, VERSIONS) for one in version(number)]
    units = units_of([version(VERSIONS), others])
    assert (units["rows"], units["messages"]) == (98, 221)


def test_versions_one_a_request() -> None:
    units = units_of([version(number) for number in range(1, VERSIONS + 1)])
    # The server corrects the versions before in several steps that overtake each other.
    assert units["rows"] == pytest.approx(328, rel=0.02)
    assert units["messages"] == pytest.approx(690, rel=0.02)


def test_what_waits_in_the_queue_is_a_message_more() -> None:
    requests = [version(1)]
    waiting, direct = units_of(requests, queued=True), units_of(requests)
    assert waiting == {**direct, "messages": direct["messages"] + len(VERSION)}


def test_what_is_there_and_equal_is_no_row() -> None:
    once, twice = units_of([version(1)]), units_of([version(1), version(1)])
    more = {unit: twice[unit] - once[unit] for unit in UNITS}
    assert (more["rows"], more["messages"], more["documents"]) == (0, len(VERSION), len(VERSION))


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_our_share_of_what_datahubs_own_source_costs(tmp_path: Path) -> None:
    database = generate(tmp_path / "store", runs=100, kind="lifelike")
    store = Server(f"sqlite:///{database}", 0)
    with counting(tmp_path) as catalog:
        ours = Ours(tmp_path, mlflow(store), catalog, "report_to_catalog: false\n")
        first = counted(ours.ingest(store), catalog).counts
        again = counted(ours.ingest(store), catalog).counts
    theirs = datahub(Path(sys.prefix))(tmp_path, store)["datahub"].counts
    seen = {unit: (first[unit], again[unit] - first[unit]) for unit in UNITS}
    over = {unit: counts for unit, counts in seen.items() if max(map(sub, counts, MOST[unit])) > 0}
    assert not over
    shares = {unit: first[unit] / theirs[unit] for unit in MOST_OF_DATAHUBS}
    assert not {unit for unit, share in shares.items() if share > MOST_OF_DATAHUBS[unit]}, shares
