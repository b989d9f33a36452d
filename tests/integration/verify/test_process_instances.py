"""`verify` of process instances: green, and each fault is found alone."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_checks import everything
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import put

pytestmark = pytest.mark.integration

DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/c,PROD)"
KEPT, TRASH = "kept", "trash"


class Ingested(NamedTuple):
    """A catalog with the process instances of two runs, by name, one of them in the trash."""

    catalog: RunningCatalog
    recipe: str
    runs: dict[str, str]

    def verify(self) -> tuple[int, dict[str, Any]]:
        with redirect_stdout(io.StringIO()) as out:
            code = call(["verify", self.recipe, "--json", "-q"])
        return code, json.loads(out.getvalue())


@pytest.fixture
def ingested(tmp_path: Path) -> Iterator[Ingested]:
    from mlflow.entities import Dataset, DatasetInput

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with mlflow_client(uri) as client:
        experiment = client.create_experiment("churn")
        runs = {name: client.create_run(experiment).info.run_id for name in (KEPT, TRASH)}
        used = Dataset("c", "d1", "s3", '{"uri": "s3://lake/c"}')
        client.log_inputs(runs[KEPT], datasets=[DatasetInput(used, [])])
    with running_catalog(tmp_path / "c.db") as catalog:
        config = {"tracking_uri": uri, "lineage": {"process_instances": True}}
        recipe = tmp_path / "recipe.yml"
        parts = {
            "source": {"type": "mlflow", "config": config},
            "sink": {"type": "rest", "config": {"server": catalog.url}},
        }
        recipe.write_text(json.dumps(parts))
        assert call([str(recipe), "-q"]) == 0
        with mlflow_client(uri) as client:
            client.delete_run(runs[TRASH])
        assert call([str(recipe), "--full", "-q"]) == 0
        yield Ingested(catalog, str(recipe), runs)


def test_the_process_instances_of_a_whole_ingest_are_green(ingested: Ingested) -> None:
    code, facts = ingested.verify()
    assert (code, facts["discrepancies"]) == (0, [])
    assert facts["compared"]["process instance"] == 1
    left_out = {one["what"]: one["count"] for one in facts["left_out"]}
    assert left_out["process instance in MLflow's trash"] == 1


@pytest.mark.parametrize(
    ("run", "aspect", "value", "found"),
    [
        (KEPT, "status", {"removed": True}, ("missing", "status.removed", "false", "true")),
        (TRASH, "status", {"removed": False}, ("stale", "status.removed", "true", "false")),
        (
            *(KEPT, "dataProcessInstanceInput", {"inputs": []}),
            ("missing", "dataProcessInstanceInput.inputs", DATASET, None),
        ),
        (
            *(KEPT, "subTypes", {"typeNames": ["Job"]}),
            ("missing", "subTypes.typeNames", "ML Training Run", "Job"),
        ),
        (
            *(KEPT, "dataProcessInstanceProperties"),
            {"name": "n", "created": {"time": 0, "actor": "urn:li:corpuser:a"}},
            ("missing", "customProperties[mlflow.run_id]", KEPT, None),
        ),
    ],
)
def test_a_fault_of_a_process_instance_is_found(
    ingested: Ingested, run: str, aspect: str, value: Any, found: tuple[str, str, str, str | None]
) -> None:
    process = Naming().process(ingested.runs[run])
    put(ingested.catalog.store, process, **{aspect: value})
    code, facts = ingested.verify()
    first = facts["discrepancies"][0]
    expected = [ingested.runs.get(str(one), one) for one in found]
    assert [first[key] for key in ("outcome", "field", "expected", "found")] == expected
    assert (code, first["urn"]) == (4, process)


def test_a_model_that_does_not_name_its_process_instance_is_found(ingested: Ingested) -> None:
    run_id = ingested.runs[KEPT]
    urn, process = Naming().model(run_id).urn, Naming().process(run_id)
    stored = json.loads(everything(ingested.catalog.store)[urn]["mlModelProperties"])
    assert stored["trainingJobs"] == [process]
    put(ingested.catalog.store, urn, mlModelProperties={**stored, "trainingJobs": []})
    code, facts = ingested.verify()
    (found,) = facts["discrepancies"]
    assert (code, found["urn"], found["expected"]) == (4, urn, process)
    assert (found["outcome"], found["kind"], found["field"]) == (
        *("missing", "process instance"),
        "trainingJobs",
    )
