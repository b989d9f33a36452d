"""The job that a run's tag names is merged with the jobs that others name."""

from mlcat_ingest.metadata.naming import airflow_job
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG
from mlcat_ingest.sources.mlflow.mapping import map_record
from support.fakes import FakeSink, model_urn
from support.mlflow_records import record_from_json
from support.recipes import run

OURS, OTHER = airflow_job("churn", "train", "prod"), airflow_job("churn", "again", "prod")
THEIRS = "urn:li:dataProcessInstance:theirs"
MODEL = model_urn("r")


def ingest(sink: FakeSink, **tags: str) -> list[str]:
    info = {"run_id": "r", "experiment_id": "1", "tags": tags}
    record = record_from_json({"run": info, "experiment": {"experiment_id": "1", "name": "e"}})
    report = run(sink, *map_record(record))
    report.raise_for_failure()
    return list(sink.stored[MODEL]["mlModelProperties"].get("trainingJobs", ()))


def test_jobs_of_others_stay_and_ours_goes_with_its_tag() -> None:
    sink = FakeSink({MODEL: {"mlModelProperties": {"trainingJobs": [THEIRS]}}})
    assert ingest(sink, **{TRAINING_JOB_TAG: OURS}) == [THEIRS, OURS]
    assert ingest(sink, **{TRAINING_JOB_TAG: OTHER}) == [THEIRS, OTHER]
    assert ingest(sink) == [THEIRS]
