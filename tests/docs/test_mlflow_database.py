"""The page about reading MLflow's database says what the code knows."""

import re
from pathlib import Path

from mlcat_ingest.sources.mlflow.read.checks import REVISIONS, MlflowFeature, numbers_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "mlflow-database.md").read_text()


def test_the_revisions_on_the_page_are_those_that_are_known() -> None:
    rows = re.findall(r"^\| ([^|`]+) \| `(\w+)` \|$", PAGE, re.MULTILINE)
    assert dict(rows) == {releases: revision for revision, releases in REVISIONS.items()}


def test_the_features_on_the_page_are_those_that_older_versions_lack() -> None:
    rows = re.findall(r"^\| (\d+)\.(\d+) \| ([^|`]+) \|", PAGE, re.MULTILINE)
    assert len(rows) == len(MlflowFeature)
    for feature, (major, minor, text) in zip(MlflowFeature, rows, strict=True):
        assert feature.value == (int(major), int(minor))
        assert text.startswith(feature.name.lower().replace("_", " "))


def test_the_readme_names_the_databases_that_are_known() -> None:
    of_2, of_3 = (
        [releases for releases in REVISIONS.values() if releases.startswith(major)]
        for major in ("2", "3")
    )
    first, last = numbers_of(of_3[0]), numbers_of(of_3[-1])
    known = f"MLflow {' and '.join(of_2)} and {first[0]}.{first[1]} to {last[0]}.{last[1]}"
    assert f"{known} make them" in (ROOT / "README.md").read_text()
