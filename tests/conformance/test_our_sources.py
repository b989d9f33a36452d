"""Every source of the package, and every catalog that is read again, keep their protocol."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlcat_ingest.client.config import EmbeddedSinkConfig, RestSinkConfig
from mlcat_ingest.client.embedded import EmbeddedCatalog
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.sources.definitions.file_source import DefinitionsConfig, DefinitionsSource
from mlcat_ingest.sources.definitions.tables import Broken
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.source import FeastSource
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.source import SagemakerSource
from mlcat_ingest.testing.conformance import check_catalog, check_source
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.testing.recording import RecordingCatalog
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support import small_store
from support.definitions import definitions
from support.feast import SQL_REGISTRY, registry
from support.gms import running_gms
from support.mlflow_databases import seeded_server
from support.sagemaker import REGION, columns

SECRET = "hunter2-the-password"


def test_definitions_in_a_file(tmp_path: Path) -> None:
    content = definitions()
    path = tmp_path / "features.yml"

    def write() -> None:
        path.write_text(yaml.safe_dump(content))

    def change() -> None:
        content["tables"][0]["description"] = "changed"
        write()

    def remove() -> None:
        content["tables"].pop()
        write()

    write()
    check_source(
        lambda: DefinitionsSource(DefinitionsConfig(path=path)),
        change=change,
        remove=remove,
        make_unreachable=lambda: DefinitionsSource(DefinitionsConfig(path=tmp_path / "no.yml")),
        unmappable=[Broken(namespace="rides", name="a table", reason="it has two names")],
    )


def view(name: str, description: str = "") -> dict[str, Any]:
    features = [{"name": "rate", "value_type": 5}, {"name": "trips", "value_type": 4}]
    spec = {"name": name, "project": "p", "description": description, "features": features}
    return {"spec": spec}


def test_feast_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    views = [view("drivers"), view("riders")]

    def write() -> None:
        path.write_bytes(registry(projects=[{"spec": {"name": "p"}}], feature_views=views))

    def change() -> None:
        views[0] = view("drivers", "changed")
        views.append(view("cars"))
        write()

    def remove() -> None:
        del views[1]
        write()

    def source(path: Path) -> FeastSource:
        return FeastSource(FeastConfig.model_validate({"registry": str(path)}))

    write()
    check_source(
        lambda: source(path),
        change=change,
        remove=remove,
        make_unreachable=lambda: source(tmp_path / "none.db"),
        unmappable=[Broken(namespace="p", name="drivers", reason="its features have no names")],
    )


def test_feast_from_a_database(tmp_path: Path) -> None:
    def source(path: Path | str) -> FeastSource:
        config = {"registry": {"registry_type": "sql", "path": f"sqlite:///{path}"}}
        return FeastSource(FeastConfig.model_validate(config))

    text = tmp_path / "registry.db"
    text.write_text("no database")
    check_source(lambda: source(SQL_REGISTRY), make_unreachable=lambda: source(text))


def test_mlflow_from_its_database(tmp_path: Path) -> None:
    store = small_store.make(tmp_path)

    def source(path: Path | str) -> MlflowSource:
        return MlflowSource(MlflowConfig(tracking_uri=f"sqlite:///{path}"))

    def change() -> None:
        now_ms = int(time.time() * 1000)
        store.add_run("c", lr="0.3")
        store.change(
            "UPDATE runs SET start_time = ?, end_time = ? WHERE run_uuid = 'c'", now_ms, now_ms
        )
        store.change("UPDATE experiments SET name = 'churn 2', last_update_time = ?", now_ms)

    def remove() -> None:
        for table in ("params", "runs"):
            store.change(f"DELETE FROM {table} WHERE run_uuid = 'b'")

    check_source(
        lambda: source(store.mlflow),
        change=change,
        remove=remove,
        make_unreachable=lambda: source("/nowhere/mlflow.db"),
    )


@pytest.mark.integration
@pytest.mark.parametrize("version", ["ours", "mlflow-2"])
def test_mlflow_over_rest(version: str, tmp_path: Path) -> None:
    with (
        seeded_server(version, tmp_path) as (server, made),
        failing_service([ServiceAnswer(503)]) as busy,
    ):

        def source(url: str) -> MlflowSource:
            url = url.replace("://", f"://ann:{SECRET}@")
            return MlflowSource(MlflowConfig.model_validate({"tracking_uri": url, "retries": 0}))

        def change() -> None:
            with mlflow_client(server.url) as client:
                run = client.create_run(made.experiments["churn"], run_name="new")
                client.log_param(run.info.run_id, "lr", "0.5")
                client.set_terminated(made.runs["running"])

        def remove() -> None:
            with mlflow_client(server.url) as client:
                client.delete_registered_model("churn-model")

        check_source(
            lambda: source(server.url),
            change=change,
            remove=remove,
            make_unreachable=lambda: source(busy.url),
            secrets=[SECRET],
        )


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from moto import mock_aws
    from moto.sagemaker.responses import SageMakerResponse

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    # moto answers what `read` asks for, and neither of these, which `check` tries.
    for method, answer in (("list_feature_groups", "FeatureGroupSummaries"), ("list_tags", "Tags")):
        body = json.dumps({answer: []})
        monkeypatch.setattr(SageMakerResponse, method, lambda _, body=body: body, raising=False)
    with mock_aws():
        import boto3

        with closing(boto3.client("sagemaker", region_name=REGION)) as client:
            yield client


@pytest.mark.integration
def test_sagemaker(aws: Any) -> None:
    def make(name: str) -> None:
        aws.create_feature_group(
            FeatureGroupName=name,
            RecordIdentifierFeatureName="id",
            EventTimeFeatureName="at",
            FeatureDefinitions=columns("id:String", "at:Fractional", "rate:Fractional"),
            OfflineStoreConfig={"S3StorageConfig": {"S3Uri": "s3://lake/features"}},
            RoleArn="arn:aws:iam::123456789012:role/store",
        )

    make("drivers")
    make("riders")
    config = SagemakerConfig(region=REGION, feature_metadata=False)
    check_source(lambda: SagemakerSource(config), change=lambda: make("cars"), secrets=[SECRET])


def test_the_recording_catalog() -> None:
    catalog = RecordingCatalog()
    check_catalog(lambda: catalog)


@pytest.mark.process
def test_the_embedded_catalog(tmp_path: Path) -> None:
    config = EmbeddedSinkConfig(db=f"sqlite:///{tmp_path}/catalog.db")
    check_catalog(lambda: EmbeddedCatalog(config))


@pytest.mark.process
def test_a_catalog_service_that_answers_as_datahub_does(tmp_path: Path) -> None:
    with running_gms(tmp_path / "gms.db") as gms:
        config = RestSinkConfig.model_validate({"server": gms.url})
        check_catalog(lambda: RestCatalog(config))
