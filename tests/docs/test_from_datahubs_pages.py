"""`from-datahubs-pages.md`: its recipe, and its commands with DataHub's command line."""

import shlex
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from mlcat_ingest.recipe.draft import draft_of_data
from mlcat_ingest.workflows.resolve import resolve_draft
from support.catalog_server import running_catalog
from support.datahub_cli import DataHubCli
from support.page_blocks import marked
from support.small_store import A, B, make
from support.venvs import REQUIREMENTS

pytestmark = pytest.mark.compat

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "datahub-ingest.md").read_text()
PAGE = (DOCS / "tutorials" / "from-datahubs-pages.md").read_text()


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    make(tmp_path)
    address = '"http://mlflow.example.com:5000"'
    assert address in marked(PAGE, "recipe")
    recipe = marked(PAGE, "recipe").replace(address, "sqlite:///mlflow.db")
    (tmp_path / "recipe.yml").write_text(recipe)
    with running_catalog(tmp_path / "c.db", token="secret") as catalog:
        cli = DataHubCli(catalog.url, tmp_path, "secret")
        check, dry_run = (shlex.split(line)[1:] for line in marked(PAGE, "commands").splitlines())
        assert '"capable": true' in (cli.run(*check).stderr)
        printed = cli.run(*dry_run).stdout
        assert all(line in printed for line in marked(PAGE, "printed").splitlines())
        assert catalog.store.exists([A, B]) == set()
        cli.run("ingest", "-c", "recipe.yml")
        assert catalog.store.exists([A, B]) == {A, B}


def test_the_state_of_the_page_is_valid() -> None:
    config = yaml.safe_load(marked(PAGE, "recipe"))["source"]["config"]
    resolve_draft(draft_of_data(config | yaml.safe_load(marked(PAGE, "state")), "page"))


def test_the_reference_names_the_tested_releases() -> None:
    older = [REQUIREMENTS[f"datahub-{release}"][0] for release in ("1.4", "1.5", "1.6")]
    named = ", ".join(one.removeprefix("acryl-datahub==") for one in older)
    assert f"tested with {named} and {version('acryl-datahub')}" in REFERENCE
