"""Faults that other connectors have: each has a test that it is not ours."""

import math
from collections import Counter
from typing import Any

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import (
    DatasetInput,
    Metric,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.fake_mlflow import FakeReader, FakeStore, a_source, entities_of
from support.mlflow_records import a_run, a_scope, an_experiment

RUN = "a" * 32
MODEL = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{RUN},PROD)"
VERSION = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,{},PROD)"
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{},PROD)"


def mapped(store: FakeStore) -> dict[str, Entity]:
    return entities_of(a_source(FakeReader({"default": store})))


def properties_of(run: Run) -> Any:
    return map_record(JoinedRun(a_scope(), run, an_experiment()))[-1].aspects["mlModelProperties"]


def test_d1_no_run_tag_is_lost() -> None:
    tags = {
        "team": "risk",
        "mlflow.parentRunId": "b" * 32,
        "mlflow.source.git.commit": "4c1d0f7",
        "mlflow.source.git.branch": "main",
        "mlflow.user": "ann",
        "mlflow.source.name": "train.py",
        "feast.feature_service": "fraud_v1",
    }
    properties = properties_of(a_run(tags={**tags, "mlflow.note.content": "why"}))
    custom = properties["customProperties"]
    assert {key: custom.get(key) for key in tags} == tags
    assert custom["mlflow.parent_run_id"] == "b" * 32
    assert properties["description"] == "why"


def test_d2_aliases_come_from_the_registered_model() -> None:
    entities = mapped(
        FakeStore(
            [an_experiment()],
            [a_run()],
            [RegisteredModel("m", aliases={"champion": "2", "old": "1"})],
            [ModelVersion("m", "2", run_id=RUN, aliases=()), ModelVersion("m", "1")],
        )
    )
    aliases = entities[VERSION.format("m_2")].aspects["versionProperties"]["aliases"]
    assert aliases == [{"versionTag": "champion"}]


def test_d3_no_request_is_made_per_run_or_version() -> None:
    runs = [a_run(f"{n:032x}") for n in range(50)]
    versions = [ModelVersion("m", str(n), run_id=f"{n:032x}") for n in range(50)]
    reader = FakeReader(
        {"default": FakeStore([an_experiment()], runs, [RegisteredModel("m")], versions)}
    )
    entities_of(a_source(reader))
    assert Counter(name for _, name in reader.calls) == {
        "experiments": 1,
        "registered_models": 1,
        "model_versions": 1,
        "logged_models 1": 1,
        "runs": 1,
    }


def test_d4_every_version_of_a_run_is_linked() -> None:
    entities = mapped(
        FakeStore(
            [an_experiment()],
            [a_run()],
            [RegisteredModel("m"), RegisteredModel("n")],
            [ModelVersion(*each, run_id=RUN) for each in (("m", "2"), ("m", "1"), ("n", "7"))],
        )
    )
    properties = entities[MODEL].aspects["mlModelProperties"]
    assert properties["groups"] == [GROUP.format("fraud")]
    assert properties["customProperties"]["mlflow.versions"] == '["m:1","m:2","n:7"]'
    for version, name in (("m_1", "m"), ("m_2", "m"), ("n_7", "n")):
        of_version = entities[VERSION.format(version)].aspects["mlModelProperties"]
        assert of_version["groups"] == [GROUP.format(f"registered:{name}")]
        assert of_version["customProperties"]["mlflow.run_model"] == MODEL


@pytest.mark.parametrize("status", ["FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED"])
def test_d5_every_status_is_reported_as_it_is(status: str) -> None:
    assert properties_of(a_run(status=status))["customProperties"]["mlflow.status"] == status


def test_d5_not_a_number_is_reported_by_name() -> None:
    metrics = (Metric("auc", math.nan), Metric("loss", math.inf))
    assert properties_of(a_run(metrics=metrics))["trainingMetrics"] == [
        {"name": "auc", "value": "NaN"},
        {"name": "loss", "value": "Infinity"},
    ]


def test_d6_an_apostrophe_in_a_registered_name_is_a_name_like_any_other() -> None:
    name = "Ann's model"
    entities = mapped(
        FakeStore(
            [an_experiment()],
            [a_run()],
            [RegisteredModel(name)],
            [ModelVersion(name, "1", run_id=RUN)],
        )
    )
    group = GROUP.format(f"registered:{name}")
    assert entities[group].aspects["mlModelGroupProperties"]["name"] == name
    version = entities[VERSION.format(f"{name}_1")]
    assert version.aspects["mlModelProperties"]["groups"] == [group]


@pytest.mark.parametrize("stage", [None, "None", ""])
def test_d7_no_stage_gives_no_tag_and_no_crash(stage: str | None) -> None:
    store = FakeStore(
        [an_experiment()],
        [a_run()],
        [RegisteredModel("m")],
        [ModelVersion("m", "1", run_id=RUN, stage=stage), ModelVersion("m", "2", stage=stage)],
    )
    entities = mapped(store)
    assert all(
        one.aspects["globalTags"] == {"tags": []}
        for one in entities.values()
        if not one.only_if_absent
    )
    assert not any(urn.startswith("urn:li:tag:") for urn in entities)


def test_d8_a_dataset_is_known_by_its_source_not_by_its_display_name() -> None:
    data = DatasetInput("my data", "d1", "s3", '{"uri": "s3a://lake/train.parquet"}')
    scope = a_scope(env="DEV")
    [entity] = map_record(JoinedRun(scope, a_run(datasets=(data,)), an_experiment()))
    assert entity.aspects["mlModelTrainingData"] == {
        "trainingData": [
            {"dataset": "urn:li:dataset:(urn:li:dataPlatform:s3,lake/train.parquet,DEV)"}
        ]
    }


def test_d8_environment_and_instance_are_those_of_the_datasets_own_connector() -> None:
    store = FakeStore(
        [an_experiment()],
        [a_run(datasets=(DatasetInput("t", "1", "s3", '{"uri": "s3a://lake/t/dt=1/p.csv"}'),))],
    )
    platforms = {"s3": {"instance": "eu", "env": "PROD"}}
    source = a_source(
        FakeReader({"default": store}), env="DEV", instance="two", datasets={"platforms": platforms}
    )
    (model,) = (one for urn, one in entities_of(source).items() if "mlModel:" in urn)
    urn = "urn:li:dataset:(urn:li:dataPlatform:s3,eu.lake/t,PROD)"
    assert model.aspects["mlModelTrainingData"] == {"trainingData": [{"dataset": urn}]}


def test_d9_two_servers_with_an_experiment_of_one_name_stay_apart() -> None:
    store = FakeStore([an_experiment(name="churn")], [a_run()])
    one, two = (
        entities_of(a_source(FakeReader({"default": store}), instance=instance))
        for instance in ("eu", "us")
    )
    assert one
    assert two
    assert one.keys().isdisjoint(two)
    for instance, entities in (("eu", one), ("us", two)):
        group = entities[GROUP.format(f"{instance}.churn")]
        urn = f"urn:li:dataPlatformInstance:(urn:li:dataPlatform:mlflow,{instance})"
        assert group.aspects["dataPlatformInstance"]["instance"] == urn


def test_d9_a_renamed_experiment_is_reported_by_its_id() -> None:
    before, after = (
        mapped(FakeStore([an_experiment("7", name)], []))[GROUP.format(name)]
        for name in ("churn", "churn again")
    )
    ids = {
        one.aspects["mlModelGroupProperties"]["customProperties"]["mlflow.experiment_id"]
        for one in (before, after)
    }
    assert ids == {"7"}


def test_d10_a_registered_model_shows_its_newest_version_and_its_name() -> None:
    entities = mapped(
        FakeStore(
            [an_experiment()],
            [],
            [RegisteredModel("m", created_at_ms=5, last_updated_at_ms=9)],
            [ModelVersion("m", n, stage=s) for n, s in (("9", "Production"), ("10", None))],
        )
    )
    properties = entities[GROUP.format("registered:m")].aspects["mlModelGroupProperties"]
    assert properties["version"] == {"versionTag": "10"}
    assert properties["name"] == "m"
    assert (properties["created"], properties["lastModified"]) == ({"time": 5}, {"time": 9})


def test_d10_a_model_has_a_name() -> None:
    assert properties_of(a_run(name="bold-owl"))["name"] == "bold-owl"
    assert properties_of(a_run(name=None))["name"] == "fraud aaaaaaaa"


def test_d11_deleted_runs_and_experiments_are_seen_and_removed() -> None:
    entities = mapped(
        FakeStore(
            [an_experiment(), an_experiment("2", "old", lifecycle_stage="deleted")],
            [a_run(lifecycle_stage="deleted"), a_run("b" * 32), a_run("c" * 32, "2")],
        )
    )
    removed = {urn for urn, entity in entities.items() if entity.aspects["status"]["removed"]}
    assert removed == {MODEL, MODEL.replace(RUN, "c" * 32), GROUP.format("old")}
