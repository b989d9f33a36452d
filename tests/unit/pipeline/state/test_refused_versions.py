"""A version whose label or sort id the catalog does not take is tried again by the next run."""

from pathlib import Path

from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel
from support.fakes import model_urn
from support.mlflow_history import Recipe, Server


def test_a_refused_label_is_written_by_the_next_run_and_the_rest_at_once(tmp_path: Path) -> None:
    server = Server.in_use()
    run = server.store.runs[0]
    server.store.registered.append(RegisteredModel("my model"))
    server.store.versions += [
        ModelVersion("my model", n, run.run_id, created_at_ms=server.now_ms) for n in "12"
    ]
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db")
    first, second = (model_urn(f"my model_{n}") for n in "12")
    recipe.sink.refuse = {(first, "versionProperties")}
    report = recipe.report()
    assert report.exit_code == 4
    assert report.entities["mlModel"].rejected == 1
    stored = recipe.sink.stored
    assert "versionProperties" not in stored[first]
    assert stored[first]["mlModelProperties"]["hyperParams"] == [
        {"name": name, "value": value} for name, value in run.params.items()
    ]
    assert stored[second]["versionProperties"]["sortId"] == "0000000002"

    assert recipe.report().exit_code == 4, "it is still refused, and asked for"
    recipe.sink.refuse = ()
    (last,) = recipe.ingest().passes
    assert not last.full
    assert stored[first]["versionProperties"]["sortId"] == "0000000001"
    recipe.sink.writes.clear()
    recipe.ingest()
    assert recipe.sink.writes == []
