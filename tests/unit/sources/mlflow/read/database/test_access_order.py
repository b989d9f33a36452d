"""The order and the limits of listings, over blocks and pages of ids that are made small."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.config import RunSelect
from mlcat_ingest.sources.mlflow.read.database import access
from mlcat_ingest.sources.mlflow.read.reader import RunFilter
from support.mlflow_tables import BEFORE_LOGGED_MODELS, NEWEST, insert, make_database, reader_of

STARTS = [30, 10, None, 20, 20, 20, None, 40, 10]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    runs = [
        {
            "run_uuid": f"{number:032x}",
            "experiment_id": number % 2,
            "start_time": start,
            "status": "FINISHED" if number % 3 else "FAILED",
        }
        for number, start in enumerate(STARTS)
    ]
    return make_database(tmp_path / "m.db", runs=runs)


@pytest.fixture(params=[(1, 1), (2, 1), (3, 2), (100, 100)])
def _small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    block, page = request.param
    monkeypatch.setattr(access, "IDS_A_BLOCK", block)
    monkeypatch.setattr(access, "IDS_A_PAGE", page)


def listed(uri: str, ids: Sequence[str] = ("0", "1"), **only: Any) -> list[int]:
    reader = reader_of(uri)
    found = [run.run_id for page in reader.runs(ids, only=RunFilter(**only)) for run in page]
    return [int(run_id, 16) for run_id in found]


@pytest.mark.usefixtures("_small")
def test_runs_come_by_start_then_id_and_those_that_never_started_last(uri: str) -> None:
    assert listed(uri) == [1, 8, 3, 4, 5, 0, 7, 2, 6]


@pytest.mark.usefixtures("_small")
def test_a_limit_takes_the_newest(uri: str) -> None:
    newest = [7, 0, 3, 4, 5, 1, 8, 2, 6]
    for limit in (1, 2, 3, 4, 8, 9, 50):
        assert listed(uri, limit=limit) == newest[:limit]


@pytest.mark.usefixtures("_small")
def test_filters_are_exact(uri: str) -> None:
    assert listed(uri, since_ms=20) == [3, 4, 5, 0, 7]
    assert listed(uri, statuses=("FAILED",)) == [3, 0, 6]
    assert listed(uri, statuses=("FAILED", "FINISHED"), since_ms=30) == [0, 7]
    assert listed(uri, ["1"]) == [1, 3, 5, 7]
    assert listed(uri, ["1"], limit=2) == [7, 3]
    assert listed(uri, []) == []


@pytest.mark.usefixtures("_small")
def test_each_run_comes_once_though_others_appear(uri: str, tmp_path: Path) -> None:
    reader = reader_of(uri)
    found: list[str] = []
    for number, page in enumerate(reader.runs(["0", "1"])):
        found += [run.run_id for run in page]
        late = {"run_uuid": f"f{number:031x}", "experiment_id": 0, "start_time": 5}
        insert(tmp_path / "m.db", "runs", [late])
    assert len(found) == len(set(found))
    assert {int(run_id, 16) for run_id in found} >= set(range(len(STARTS)))


def test_more_experiments_than_one_statement_names_are_listed_one_lot_after_the_other(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.sources.mlflow.read.database.reader.EXPERIMENTS_A_LISTING", 1)
    assert listed(uri) == [8, 4, 0, 2, 6, 1, 3, 5, 7]
    assert listed(uri, limit=6) == [0, 4, 8, 2, 6, 7]


@pytest.mark.parametrize(
    ("select", "expected"),
    [("all", [0, 1, 2, 3]), ("with_model", [0, 1, 2]), ("registered", [0, 1])],
)
@pytest.mark.parametrize("revision", [BEFORE_LOGGED_MODELS, NEWEST])
def test_runs_that_a_recipe_leaves_out_are_not_read(
    select: RunSelect, expected: list[int], revision: str, tmp_path: Path
) -> None:
    made = {"source_type": "RUN_OUTPUT", "destination_type": "MODEL_OUTPUT"}
    uri = make_database(
        tmp_path / "s.db",
        revision,
        runs=[{"run_uuid": f"{n:032x}", "experiment_id": 1} for n in range(4)],
        model_versions=[{"name": "m", "version": 1, "run_id": f"{0:032x}"}, {"name": "m"}],
        inputs=[{**made, "source_id": f"{1:032x}", "destination_id": "m-1"}],
        tags=[{"key": "mlflow.log-model.history", "run_uuid": f"{2:032x}", "value": "[]"}],
    )
    if revision == BEFORE_LOGGED_MODELS and select != "all":
        expected = [number for number in expected if number != 1]  # nothing tells of outputs
    assert listed(uri, ["1"], select=select) == expected
