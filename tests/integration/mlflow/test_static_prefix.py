"""`mlflow server --static-prefix`: MLflow 3 has its API below the prefix, MLflow 2 beside it."""

from pathlib import Path

import pytest
import requests

from mlcat_ingest.cli.main import call
from support.catalog_server import RunningCatalog, running_catalog
from support.fakes import group_urn
from support.mlflow_server import PREFIX, running
from support.venvs import OURS, Venv, venv_for


def link_in(catalog: RunningCatalog) -> str:
    """Return the link of the only experiment in the catalog."""
    urn = group_urn("Default")
    stored = catalog.store.get_many([urn], ["mlModelGroupProperties"])[urn]
    return str(stored["mlModelGroupProperties"].value["externalUrl"])


@pytest.mark.parametrize("release", ["mlflow-2", "ours"])
def test_links_lead_to_pages_or_check_names_the_cure(
    release: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    api_below = release == "ours"
    venv: Venv = OURS if api_below else venv_for(release)
    with running(venv, tmp_path / "store", extra_args=["--static-prefix", PREFIX]) as server:
        for name, address in (("bare", server.url), ("below", f"{server.url}{PREFIX}")):
            folder = tmp_path / name
            folder.mkdir()
            with running_catalog(folder / "catalog.db") as catalog:
                recipe = folder / "r.yml"
                recipe.write_text(
                    f"source: {{type: mlflow, config: {{tracking_uri: '{address}'}}}}\n"
                    f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
                )
                code = call([str(recipe)])
                text = "".join(capfd.readouterr())
                if name == "bare" and api_below:
                    assert (code, "no MLflow server at" in text) == (1, True)
                    continue
                assert code == 0, text
                assert "no MLflow server" not in text
                is_named = f"the API of MLflow is at {server.url}, and not below {address}" in text
                assert is_named is (name == "below" and not api_below)
                page = link_in(catalog).partition("#")[0]
                alive = requests.get(page, timeout=30).status_code == 200
                assert alive is (name == "below")
                assert call(["check", str(recipe)]) == 0
                text = "".join(capfd.readouterr())
                assert (f"warning  MLflow links: {address} has no page (404)" in text) is not alive
                assert ("set `ui_url`" in text) is not alive
