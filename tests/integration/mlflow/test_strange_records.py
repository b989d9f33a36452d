"""A record that cannot be read is counted, named and asked for again; the others arrive."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from support import small_store
from support.catalog_server import RunningCatalog
from support.small_store import A, B

FORMS = {
    "start_time_ms: '12x' is no number": "UPDATE runs SET start_time = '12x' WHERE run_uuid = 'a'",
    "name: bytes is no text": "UPDATE runs SET name = x'ff' WHERE run_uuid = 'a'",
}


@pytest.mark.parametrize(("reason", "statement"), FORMS.items(), ids=FORMS)
def test_a_run_in_a_database_is_refused_until_it_can_be_read(
    tmp_path: Path,
    catalog: RunningCatalog,
    capfd: pytest.CaptureFixture[str],
    reason: str,
    statement: str,
) -> None:
    store = small_store.make(tmp_path, catalog.url)
    recipe, good = store.recipe(), store.mlflow.read_bytes()
    store.change(statement)
    for words in ([recipe], [recipe], ["verify", recipe]):
        assert call(words) == 4
        assert reason in capfd.readouterr().out.replace("1 not comparable", reason)
        stored = store.stored(A, B)
        assert (not stored[A], bool(stored[B])) == (True, True)
    letters = (tmp_path / ".mlcat" / "prod.dead.jsonl").read_text()
    assert json.loads(letters)["record"] == "run a"
    store.mlflow.write_bytes(good)
    assert call([recipe]) == 0
    assert "changes since the last run" in capfd.readouterr().out
    assert store.stored(A)[A]
    store.change(statement)
    assert call([recipe, "--full"]) == 4
    assert "removed" not in capfd.readouterr().out
    assert store.stored(A)[A].get("status", {}) != {"removed": True}


def answers(**listings: list[Any]) -> Callable[[ServiceRequest], ServiceAnswer]:
    def answer(request: ServiceRequest) -> ServiceAnswer:
        name = urlsplit(request.path).path.rpartition("/mlflow/")[2].removesuffix("/search")
        key = {"logged-models": "models"}.get(name, name.replace("-", "_"))
        return ServiceAnswer(
            200, json.dumps({key: listings[key]} if key in listings else {}).encode()
        )

    return answer


def test_strange_records_of_each_listing_of_a_server_hide_no_other(
    tmp_path: Path, catalog: RunningCatalog, capfd: pytest.CaptureFixture[str]
) -> None:
    service = answers(
        experiments=[
            {"experiment_id": "0", "name": 7, "creation_time": 1},
            {"experiment_id": {"a": 1}, "name": "x"},
            {"experiment_id": "1", "name": "churn", "creation_time": 2},
        ],
        runs=[
            {"info": {"run_id": "a" * 32, "experiment_id": "1", "start_time": "12x"}},
            {"data": {}},
            {"info": {"run_id": "b" * 32, "experiment_id": "1", "start_time": 5}},
        ],
        registered_models=[{"name": {}}, {"name": "clf"}],
        model_versions=[
            {"name": "clf", "version": "1", "tags": 3},
            {"name": "clf", "version": "2", "run_id": "b" * 32},
        ],
        models=[{"info": {"model_id": 3, "experiment_id": "1"}}],
    )
    with failing_service(service) as server:
        path = tmp_path / "r.yml"
        path.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{server.url}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        )
        assert call([str(path)]) == 4
        text = capfd.readouterr().out
        assert call(["check", str(path)]) == 0
        checked = capfd.readouterr().out
    assert "finished" in text.splitlines()[0], text
    for words in (
        "experiment 0: name: 7 is no text",
        "experiment without a usable id: experiment_id: dict is no text",
        f"run {'a' * 32}: start_time_ms: '12x' is no number",
        "run without a usable id: info is missing",
        "registered model without a usable id: name: dict is no text",
        "version clf 1: tags: 'int' object is not iterable",
        "logged model 3: model_id: 3 is no text",
    ):
        assert words in text
    assert "  mlModel      2 created" in text
    assert "  mlModelGroup 2 created" in text
    assert "warning  MLflow records: 6 cannot be read, the first: experiment 0: name: 7" in checked
