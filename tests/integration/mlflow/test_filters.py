"""The filters of incremental reading, on real servers: every reader lists exactly what fits."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, ModelFilter, Reader, RunFilter
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.source import open_reader
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, Run
from support.bulk_runs import insert_runs
from support.mlflow_databases import seeded_server
from support.seeded_store import START_MS, SeededStore


class Store(NamedTuple):
    uri: str
    db_path: Path
    made: SeededStore
    many: list[str]


@pytest.fixture(scope="module", params=["ours", "mlflow-2"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    version = str(request.param)
    with seeded_server(version, tmp_path_factory.mktemp(version)) as (server, made):
        many = insert_runs(server.db_path, 250, experiments=2)
        yield Store(server.url, server.db_path, made, many)


@pytest.fixture(params=["rest", "client", "database"])
def reader(request: pytest.FixtureRequest, store: Store) -> Iterator[Reader]:
    uri = f"sqlite:///{store.db_path}" if request.param == "database" else store.uri
    config = MlflowConfig(tracking_uri=uri, page_size=60)
    readers: dict[str, Callable[[MlflowConfig], Reader]] = {
        "rest": RestReader,
        "client": ClientReader,
        "database": open_reader,
    }
    reader = readers[request.param](config)
    yield reader
    reader.connection.close()


def experiment_ids(reader: Reader) -> list[str]:
    return [one.experiment_id for page in reader.experiments() for one in page]


def runs(reader: Reader, only: RunFilter) -> list[Run]:
    found = [run for page in reader.runs(experiment_ids(reader), only=only) for run in page]
    assert len({run.run_id for run in found}) == len(found)
    return found


def models(reader: Reader, **only: Any) -> set[str]:
    pages: Iterator[list[LoggedModel]] = reader.logged_models(
        experiment_ids(reader), only=ModelFilter(**only)
    )
    return {model.model_id for page in pages for model in page}


@pytest.mark.parametrize(
    "only",
    [
        RunFilter(since_ms=START_MS + 5_000, before_ms=START_MS + 60_000),
        RunFilter(before_ms=START_MS + 1),
        RunFilter(ended_since_ms=START_MS + 200_000),
        RunFilter(ended_since_ms=START_MS + 8_000, before_ms=START_MS + 8_000),
        RunFilter(ended_since_ms=START_MS + 100_000, statuses=("FINISHED",)),
        RunFilter(deleted=True),
        RunFilter(deleted=True, limit=1),
        RunFilter(since_ms=START_MS + 10**9),
    ],
    ids=repr,
)
def test_a_filter_lists_exactly_what_fits(reader: Reader, only: RunFilter) -> None:
    every = runs(reader, RunFilter())

    def fits(run: Run) -> bool:
        started, ended = run.start_time_ms or 0, run.end_time_ms
        return (
            (only.since_ms or 0) <= started < (only.before_ms or 10**18)
            and (only.ended_since_ms is None or (ended or 0) >= only.ended_since_ms)
            and (not only.statuses or run.status in only.statuses)
            and (not only.deleted or run.lifecycle_stage == "deleted")
        )

    expected = [run.run_id for run in every if fits(run)]
    found = [run.run_id for run in runs(reader, only)]
    if only.limit is None:
        assert found == expected
    else:
        assert found == list(reversed(expected))[: only.limit]


def test_runs_are_found_by_their_ids_in_whatever_stage(reader: Reader, store: Store) -> None:
    wanted = [*store.many[: IDS_A_LISTING - 4], *map(store.made.runs.get, ("parent", "deleted"))]
    ids = (*(one for one in wanted if one), "0" * 32, "gone")
    assert len(ids) == IDS_A_LISTING
    found = runs(reader, RunFilter(run_ids=ids))
    assert {run.run_id for run in found} == set(ids) - {"0" * 32, "gone"}


def test_logged_models_are_found_by_what_made_them_and_by_their_ids(
    reader: Reader, store: Store
) -> None:
    if not store.made.logged_models:
        if not isinstance(reader, ClientReader):
            assert models(reader, updated_since_ms=0) == set()
        return
    every = set(store.made.logged_models.values())
    forest = store.made.logged_models["forest"]
    made_by = (store.made.runs["with-models"], "0" * 32)
    assert models(reader) == every
    assert models(reader, run_ids=made_by) == every
    assert models(reader, run_ids=(store.made.runs["parent"],)) == set()
    assert models(reader, model_ids=(forest, "m-none")) == {forest}
    assert models(reader, updated_since_ms=0) == every
    assert models(reader, updated_since_ms=int(time.time() * 1000) + 10**6) == set()
    assert models(reader, updated_since_ms=0, run_ids=made_by, model_ids=(forest,)) == {forest}


def test_the_clock_is_that_of_the_server(reader: Reader) -> None:
    experiment_ids(reader)
    assert abs(reader.connection.clock_ms() - time.time() * 1000) < 60_000
