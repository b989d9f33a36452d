"""Model cards beside the models of a real MLflow store, read over HTTP and by SQL."""

from pathlib import Path
from typing import Any

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_checks import everything
from support.catalog_server import running_catalog
from support.mlflow_server import running
from support.venvs import OURS

CARD = """\
# Churn
## Intended use
- Rank customers
## Limitations
Trained on 2024.
## Recommendations
Check weekly.
"""
CAVEATS = "mlModelCaveatsAndRecommendations"


def log_models(uri: str, folder: Path) -> str:
    """Log a run with a model that has a card, and register it; return the run's id."""
    from mlflow.entities import LoggedModelOutput

    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    (folder / "MLmodel").write_text("flavors: {}\n")
    with mlflow_client(uri) as client:
        run_id = client.create_run("0").info.run_id
        model = client.create_logged_model("0", name="net", source_run_id=run_id)
        client.log_model_artifacts(model.model_id, str(folder))
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        client.finalize_logged_model(model.model_id, "READY")
        client.create_registered_model("churn")
        source = f"models:/{model.model_id}"
        client.create_model_version("churn", source, run_id, model_id=model.model_id)
        return str(run_id)


def test_a_card_fills_a_model_and_its_version_beside_what_a_person_wrote(tmp_path: Path) -> None:
    with running(OURS, tmp_path / "store") as server:
        run_id = log_models(server.url, tmp_path / "model")
        found: list[Any] = []
        for uri in (server.url, f"sqlite:///{server.db_path}"):
            recipe = tmp_path / f"r{len(found)}.yml"
            with running_catalog(tmp_path / f"{recipe.stem}.db") as catalog:
                config = f"{{tracking_uri: '{uri}', ui_url: 'http://m', model_cards: true}}"
                recipe.write_text(
                    f"name: cards\nwriter_id: one\nsource: {{type: mlflow, config: {config}}}\n"
                    f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
                    f"state: {{url: 'sqlite:///{tmp_path}/{recipe.stem}-state.db'}}\n"
                )
                assert call([str(recipe), "-q"]) == 0
                found.append(everything(catalog.store))
                names = Naming()
                run, version = names.model(run_id).urn, names.version("churn", "1").urn
                for urn in (run, version):
                    assert aspects(catalog.store, urn)["intendedUse"]["primaryUses"] == [
                        "Rank customers"
                    ]
                by_person = {**aspects(catalog.store, run)[CAVEATS], "recommendations": "Ask me."}
                with CatalogClient(catalog.url, "") as client:
                    client.write([Proposal(run, CAVEATS, by_person)])
                assert call([str(recipe), "-q", "--full"]) == 0
                assert aspects(catalog.store, run)[CAVEATS]["recommendations"] == "Ask me."
                assert call(["verify", str(recipe), "-q"]) == 0
        assert found[0] == found[1]


def aspects(store: Any, urn: str) -> dict[str, Any]:
    return {name: dict(one.value) for name, one in store.get_many([urn])[urn].items()}
