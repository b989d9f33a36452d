"""`docs/reference/features-of-runs.md` names every rule, flag, note and option there is."""

import re
from pathlib import Path

import yaml

from mlcat_ingest.links import evidence, rules
from mlcat_ingest.metadata.reserved import (
    FEATURES_APPROXIMATE,
    FEATURES_RESOLVED_BY,
    FEATURES_UNRESOLVED,
)
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.options import FeaturesConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "features-of-runs.md").read_text()


def test_every_rule_is_in_the_table() -> None:
    table = PAGE.partition("| trust |\n")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert named == [
        rules.DECLARED,
        rules.FEATURE_SPEC,
        evidence.FEAST_REFS,
        evidence.FEAST_FILE,
        evidence.FEAST_SERVICE,
        rules.FROM_SIGNATURE,
        rules.DATASET_MATCH,
        rules.SIGNATURE_NAMES,
    ]


def test_every_flag_is_named() -> None:
    for name in (FEATURES_RESOLVED_BY, FEATURES_APPROXIMATE, FEATURES_UNRESOLVED):
        assert f"`{name}`" in PAGE


def test_every_option_is_shown_and_the_recipe_is_valid() -> None:
    shown = PAGE.partition("## In a recipe\n")[2].partition("\n\nWith")[0]
    _, mlflow = yaml.safe_load(shown)["sources"]
    assert set(mlflow["config"]["features"]) == set(FeaturesConfig.model_fields)
    assert MlflowConfig.model_validate(mlflow["config"]).features.project == "rides"
