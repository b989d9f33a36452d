"""Thousands of runs on a real server: the request budget, ties, and a store that moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader
from mlcat_ingest.sources.mlflow.source import open_reader
from support.bulk_runs import insert_runs
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS

pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """A server that all tests share; each reads the experiments of its own prefix only."""
    with running(OURS, tmp_path_factory.mktemp("bulk")) as server:
        yield server


def reader_of(server: MlflowServer, **options: int) -> Reader:
    config = {"tracking_uri": server.url, "retries": 1, **options}
    return open_reader(MlflowConfig.model_validate(config))


def experiment_ids(reader: Reader, prefix: str) -> list[str]:
    every = (one for page in reader.experiments() for one in page)
    return [one.experiment_id for one in every if one.name.startswith(f"{prefix}-")]


def run_ids(reader: Reader, prefix: str) -> list[str]:
    reader.workspaces()
    ids = experiment_ids(reader, prefix)
    for _ in reader.model_versions():
        raise AssertionError("there are no registered models")
    return [run.run_id for page in reader.runs(ids) for run in page]


def test_a_thousand_runs_of_ten_experiments_take_at_most_eight_requests(
    server: MlflowServer,
) -> None:
    made = insert_runs(server.db_path, 1_000, experiments=10, prefix="few")
    reader = reader_of(server)
    assert run_ids(reader, "few") == made
    # A page of experiments, three of runs, server-info, no registered models; two beyond the end.
    requests = reader.connection.requests_made()
    assert 6 <= requests <= 8
    reader.server_id()
    assert reader.connection.requests_made() == requests


def test_more_runs_take_a_request_a_page_and_five(server: MlflowServer) -> None:
    made = insert_runs(server.db_path, 2_350, experiments=10, prefix="many")
    for connections in (1, 2, 3):
        reader = reader_of(server, connections=connections, page_size=500)
        assert run_ids(reader, "many") == made
        # A page of experiments, a small and five full ones of runs, server-info, no registered
        # models, and at most `connections - 1` pages asked for beyond the end.
        assert 3 + 6 <= reader.connection.requests_made() <= 3 + 6 + connections - 1


def test_runs_that_all_start_at_once_are_all_read_once(server: MlflowServer) -> None:
    made = insert_runs(server.db_path, 700, same_start=True, prefix="ties")
    found = run_ids(reader_of(server, page_size=100), "ties")
    assert len(found) == len(made)
    assert set(found) == set(made)


def test_runs_that_appear_during_the_reading_hide_none(server: MlflowServer) -> None:
    made = insert_runs(server.db_path, 400, prefix="early")
    reader = reader_of(server, page_size=50, connections=3)
    ids = experiment_ids(reader, "early")
    found: list[str] = []
    for number, page in enumerate(reader.runs(ids)):
        found += [run.run_id for run in page]
        if number == 1:
            # They start in the same seconds as the first, so that every later row moves.
            insert_into_old_experiment(server, ids[-1])
    assert len(found) == len(set(found))
    assert set(found) >= set(made)


def insert_into_old_experiment(server: MlflowServer, experiment_id: str) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(server.db_path, timeout=30)) as connection, connection:
        connection.executemany(
            "INSERT INTO runs (run_uuid, name, user_id, status, start_time, lifecycle_stage,"
            " artifact_uri, experiment_id)"
            " VALUES (?, 'late', 'ada', 'RUNNING', 1, 'active', '', ?)",
            [(f"{number:032x}", experiment_id) for number in range(30)],
        )


def test_a_server_that_stops_in_the_middle_is_one_clear_error(tmp_path: Path) -> None:
    with running(OURS, tmp_path) as server:
        insert_runs(server.db_path, 300)
        stop_in_the_middle(server)


def stop_in_the_middle(server: MlflowServer) -> None:
    reader = reader_of(server, page_size=50, connections=2)
    ids = experiment_ids(reader, "bulk")
    pages = reader.runs(ids)
    next(pages)
    server.stop()
    with pytest.raises(
        SourceUnavailableError, match=rf"the MLflow server at {server.url}"
    ) as reported:
        for _ in pages:
            pass
    assert "\n" not in str(reported.value)
