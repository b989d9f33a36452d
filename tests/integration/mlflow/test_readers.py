"""Both readers against real MLflow servers: the same records, few requests, nothing lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader, client_text
from mlcat_ingest.sources.mlflow.read.database.reader import DatabaseReader
from mlcat_ingest.sources.mlflow.read.reader import MAX_BYTES, FileLocation, Reader, RunFilter
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.source import open_reader
from mlcat_ingest.sources.mlflow.values.records import Metric, Run
from support.mlflow_databases import seeded_server
from support.mlflow_readings import NOT_A_NUMBER, entities_of, opened_reader, records_of
from support.mlflow_server import MlflowServer
from support.seeded_store import HOSTILE_NAMES, START_MS, SeededStore


@pytest.fixture(scope="module", params=["ours", "mlflow-2"])
def seeded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MlflowServer, SeededStore]]:
    version = str(request.param)
    with seeded_server(version, tmp_path_factory.mktemp(version)) as seeded:
        yield seeded


def rest(server: MlflowServer, **options: Any) -> Reader:
    reader = open_reader(MlflowConfig(tracking_uri=server.url, **options))
    assert isinstance(reader, RestReader)
    return reader


def test_both_readers_give_the_same_records(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, made = seeded
    over_http = records_of(rest(server))
    by_client = records_of(ClientReader(MlflowConfig(tracking_uri=server.url)))
    if not made.logged_models:
        # MLflow 3's own client cannot ask an MLflow 2 server for logged models.
        assert over_http["logged"] == []
    assert by_client == over_http


def test_the_database_gives_the_same_records(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, _ = seeded
    direct = open_reader(MlflowConfig(tracking_uri=f"sqlite:///{server.db_path}"))
    assert isinstance(direct, DatabaseReader)
    over_http = rest(server)
    assert records_of(direct) == records_of(over_http)
    assert entities_of(direct) == entities_of(over_http)
    assert direct.server_id() == over_http.server_id()
    assert direct.connection.requests_made() <= 50
    direct.connection.close()


def test_a_database_read_by_the_client_gives_the_same_records(
    seeded: tuple[MlflowServer, SeededStore],
) -> None:
    server, made = seeded
    uri = f"sqlite:///{server.db_path}"
    by_client = open_reader(MlflowConfig(tracking_uri=uri, reader="client"))
    if not made.logged_models:
        # MLflow 3 would have to migrate the database of MLflow 2, and its server is running.
        with pytest.raises(ProtocolMismatchError, match=r"another MLflow version"):
            next(by_client.experiments())
        return
    over_http = rest(server)
    assert records_of(by_client) == records_of(over_http)
    assert by_client.server_id() == over_http.server_id()
    assert by_client.connection.requests_made() == 5
    outcomes = {finding.what: finding.outcome for finding in by_client.check()}
    assert set(outcomes.values()) == {"ok", "warning"}
    assert outcomes["MLflow links"] == "warning"
    ids = [one.experiment_id for page in by_client.experiments() for one in page]
    newest = [run.name for page in by_client.runs(ids, only=RunFilter(limit=2)) for run in page]
    assert newest == list(reversed(HOSTILE_NAMES[-2:]))
    by_client.connection.close()


def test_pages_of_any_size_give_the_same_runs(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, _ = seeded
    whole = records_of(rest(server))["runs"]
    for size in (1, 3, len(whole)):
        assert records_of(rest(server, page_size=size))["runs"] == whole


def test_what_a_run_holds(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, made = seeded
    runs: dict[str, Run] = {run.run_id: run for run in records_of(rest(server))["runs"]}
    assert len(runs) == len(made.runs)
    parent = runs[made.runs["parent"]]
    assert parent.status == "FINISHED"
    assert (parent.start_time_ms, parent.end_time_ms) == (START_MS + 1_000, START_MS + 9_000)
    assert parent.params == {"lr": "0.1", "empty": "", "deep": "v" * 6000}
    values = {metric.key: metric for metric in parent.metrics}
    assert values["auc"] == Metric("auc", 0.9, START_MS + 1_200, 1)
    assert values["loss"].value is NOT_A_NUMBER
    assert values["down"].step == -3
    assert values["tiny"].value == 5e-324
    (dataset,) = parent.datasets
    assert json.loads(dataset.source) == {"uri": "s3://b/k.csv"}
    assert dataset.tags == {"mlflow.data.context": "training"}
    assert runs[made.runs["child-1"]].tags["mlflow.parentRunId"] == made.runs["parent"]
    assert runs[made.runs["child-3"]].status == "KILLED"
    assert runs[made.runs["deleted"]].lifecycle_stage == "deleted"
    assert runs[made.runs["running"]].end_time_ms is None
    if made.logged_models:
        outputs = runs[made.runs["with-models"]].model_outputs
        assert [one.model_id for one in outputs] == list(made.logged_models.values())


def test_what_the_registry_holds(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, made = seeded
    found = records_of(rest(server))
    assert {one.name for one in found["registered"]} == set(made.registered)
    churn = next(one for one in found["registered"] if one.name == "churn-model")
    assert churn.aliases == {"champion": "2", "shadow": "2"}
    versions = {one.version: one for one in found["versions"] if one.name == "churn-model"}
    assert versions["2"].aliases == ("champion", "shadow")
    assert (versions["1"].stage, versions["2"].stage) == ("Production", None)
    assert versions["3"].run_id is None
    if made.logged_models:
        assert versions["4"].model_id == made.logged_models["forest"]
        statuses = {one.name: one.status for one in found["logged"]}
        assert statuses == {"forest": "READY", "boosted": "FAILED"}


def test_deleted_experiments_and_hostile_names_are_read(
    seeded: tuple[MlflowServer, SeededStore],
) -> None:
    server, made = seeded
    found = records_of(rest(server))
    names = {one.name: one for one in found["experiments"]}
    assert names["abandoned"].lifecycle_stage == "deleted"
    assert names.keys() >= set(HOSTILE_NAMES)
    by_id = {run.run_id: run for run in found["runs"]}
    for name in HOSTILE_NAMES:
        assert by_id[made.runs[name]].params["text"] == name


def test_filters_and_limits_are_exact(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, _ = seeded
    every = records_of(rest(server))
    ids = [one.experiment_id for one in every["experiments"]]

    def chosen(only: RunFilter, **options: Any) -> set[str]:
        pages = rest(server, **options).runs(ids, only=only)
        return {run.run_id for page in pages for run in page}

    def expected(since: int = 0, *statuses: str) -> set[str]:
        return {
            run.run_id
            for run in every["runs"]
            if run.start_time_ms >= since and (not statuses or run.status in statuses)
        }

    assert chosen(RunFilter(since_ms=START_MS + 4_000)) == expected(START_MS + 4_000)
    assert chosen(RunFilter(statuses=("KILLED",))) == expected(0, "KILLED")
    assert chosen(RunFilter(statuses=("KILLED", "FAILED")), page_size=2) == expected(
        0, "KILLED", "FAILED"
    )
    newest = sorted(every["runs"], key=lambda run: -run.start_time_ms)[:5]
    assert chosen(RunFilter(limit=5)) == {run.run_id for run in newest}
    assert len(chosen(RunFilter(limit=5), page_size=2)) == 5
    assert len(chosen(RunFilter(limit=2, statuses=("FINISHED", "RUNNING")))) == 2


def test_the_doctor_finds_a_server_in_order(seeded: tuple[MlflowServer, SeededStore]) -> None:
    server, _ = seeded
    findings = list(rest(server).check())
    assert {finding.outcome for finding in findings} == {"ok"}
    shown = {finding.what: finding.detail for finding in findings}
    assert shown["MLflow version"].startswith(("2.22.", mlflow.__version__))
    assert shown["MLflow permission: read experiments"] == "14 of 14 selected"


SPEC = "model/data/feature_store/feature_spec.yaml"


def put_files(folder: Path) -> None:
    for path, text in {
        SPEC: "input_columns: []",
        "feast_features.json": '["ü:x"]',
        "large": "x" * (MAX_BYTES + 1),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_every_reader_reads_files_of_runs_and_of_logged_models(
    seeded: tuple[MlflowServer, SeededStore],
) -> None:
    server, made = seeded
    config = MlflowConfig(tracking_uri=server.url)
    over_http = rest(server)
    experiments = [one.experiment_id for page in over_http.experiments() for one in page]
    run = next(run for page in over_http.runs(experiments) for run in page)
    places = [FileLocation("run", run.run_id, run.artifact_uri)]
    if made.logged_models:
        model = next(one for page in over_http.logged_models(experiments) for one in page)
        places.append(FileLocation("model", model.model_id, model.artifact_uri))
    direct = open_reader(MlflowConfig(tracking_uri=f"sqlite:///{server.db_path}"))
    with opened_reader(direct), opened_reader(ClientReader(config)) as by_client:
        for place in places:
            assert place.uri is not None
            folder = Path(place.uri.removeprefix("file://"))
            put_files(folder)
            (folder.parent / "secret").write_text("not of this run")
            for reader in (over_http, by_client, direct):
                assert reader.text_of(place, SPEC) == "input_columns: []"
                assert reader.text_of(place, "feast_features.json") == '["ü:x"]'
                for path in ("large", "model", "gone", "gone/gone.yaml", "../secret"):
                    assert reader.text_of(place, path) is None


def test_files_of_what_is_not_there_are_not_there(seeded: tuple[MlflowServer, SeededStore]) -> None:
    reader = rest(seeded[0])
    for kind in ("run", "model"):
        assert reader.text_of(FileLocation(kind, "0" * 32, None), "MLmodel") is None


def test_the_client_reads_files_of_addresses_that_are_no_folder(
    seeded: tuple[MlflowServer, SeededStore], tmp_path: Path
) -> None:
    put_files(tmp_path)
    reader = ClientReader(MlflowConfig(tracking_uri=seeded[0].url))
    place = FileLocation("run", "0" * 32, f"file://localhost{tmp_path}")
    with opened_reader(reader):
        assert reader.text_of(place, SPEC) == "input_columns: []"
        assert client_text(seeded[0].url, place, SPEC) == "input_columns: []"
        assert client_text(seeded[0].url, place, "gone") is None
        assert client_text(seeded[0].url, place, "large") is None
