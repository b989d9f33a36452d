"""Which tags an MLflow run gets that a task trains, and that entries of others stay."""

import json
from dataclasses import dataclass

import pytest

from mlcat_ingest.airflow.listener import CONTEXT, TrainingTags, run_tags
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.naming import airflow_job
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG


@dataclass
class Task:
    dag_id: str = "churn.weekly"
    task_id: str = "models.train"
    run_id: str = "manual__1"
    try_number: int = 2
    map_index: int | None = -1


def test_a_task_is_named_as_datahub_names_it() -> None:
    tags = run_tags(Task(), "prod")
    assert tags == {
        TRAINING_JOB_TAG: (
            "urn:li:dataJob:(urn:li:dataFlow:(airflow,churn.weekly,prod),models.train)"
        ),
        "airflow.dag_id": "churn.weekly",
        "airflow.dag_run_id": "manual__1",
        "airflow.task_id": "models.train",
        "airflow.try_number": "2",
    }


def test_a_mapped_task_has_its_index_and_its_page() -> None:
    tags = run_tags(Task(map_index=0), "dev", "eu", "http://airflow/x")
    assert (tags["airflow.map_index"], tags["airflow.url"]) == ("0", "http://airflow/x")
    assert "(urn:li:dataFlow:(airflow,eu.churn.weekly,dev)," in tags[TRAINING_JOB_TAG]


def test_names_too_long_for_a_urn_are_an_error_of_ours() -> None:
    with pytest.raises(InvalidUrnError):
        airflow_job("d" * 250, "ü" * 250, "prod")


def test_entries_of_others_stay_and_those_of_the_last_task_go() -> None:
    environ = {CONTEXT: json.dumps({"team": "risk", "airflow.task_id": "mine"})}
    context = TrainingTags(environ)
    assert context.replace({"airflow.task_id": "a", "airflow.map_index": "1"})
    assert context.replace({"airflow.task_id": "b", "airflow.try_number": "1"})
    assert json.loads(environ[CONTEXT]) == {
        "team": "risk",
        "airflow.task_id": "mine",
        "airflow.try_number": "1",
    }


@pytest.mark.parametrize("text", ["no JSON", "[1]", '"x"'])
def test_what_is_no_object_is_left_as_it_is(text: str) -> None:
    environ = {CONTEXT: text}
    assert not TrainingTags(environ).replace({"a": "b"})
    assert environ == {CONTEXT: text}
