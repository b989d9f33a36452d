"""The suites that come with the project, on models that are well kept and on others."""

from pathlib import Path

import pytest

from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.ingest import Pipeline
from support import small_store
from support.bulk_runs import insert_versions
from support.mlflow_tables import insert
from support.venvs import REPOSITORY

SUITE = REPOSITORY / "recipes" / "tests" / "governance.yml"
VERSION = {"name": "churn", "version": 1}


def evaluated(
    folder: Path, tags: dict[str, str], version_tags: dict[str, str], user: str = "jane"
) -> Report:
    """Ingest a run and its version in production, and evaluate the suite."""
    store = small_store.make(folder)
    store.change("DELETE FROM runs WHERE run_uuid <> 'a'")
    store.change("UPDATE runs SET user_id = ?", user)
    insert(store.mlflow, "tags", [{"run_uuid": "a", "key": k, "value": v} for k, v in tags.items()])
    insert_versions(store.mlflow, "churn", ["a"])
    alias = {"name": "churn", "alias": "champion", "version": 1}
    insert(store.mlflow, "registered_model_aliases", [alias])
    rows = [{**VERSION, "key": key, "value": value} for key, value in version_tags.items()]
    insert(store.mlflow, "model_version_tags", rows)
    recipe = store.recipe(more=f"evaluate: {{test_files: [{SUITE}]}}\n")
    return Pipeline(Recipe.load(recipe)).run()


@pytest.mark.parametrize(
    "code",
    [
        {"mlflow.source.git.commit": "0123abc"},
        {"mlflow.source.git.commit": "0123abc", "mlflow.source.git.repoURL": "git@h.example:a/b"},
    ],
)
def test_well_kept_models_pass(tmp_path: Path, code: dict[str, str]) -> None:
    report = evaluated(tmp_path, code, {"approved_by": "jane"})
    assert report.exit_code == 0
    assert report.evaluation.failing_tests == {}
    assert report.evaluation.passing == 4


def test_each_rule_fails_for_what_it_is_about(tmp_path: Path) -> None:
    report = evaluated(tmp_path, {}, {}, user="")
    assert report.evaluation.failing_tests == {
        "urn:li:test:model-has-owner": 2,
        "urn:li:test:model-names-its-code": 1,
        "urn:li:test:production-version-has-approval": 1,
    }
