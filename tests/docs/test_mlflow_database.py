"""The page about reading MLflow's database says what the code knows."""

import re
from pathlib import Path

from mlcat_ingest.sources.mlflow.database.schema import SCHEMAS

PAGE = Path(__file__).parents[2] / "docs" / "mlflow-database.md"


def test_the_revisions_on_the_page_are_those_that_are_known() -> None:
    rows = re.findall(r"^\| ([^|`]+) \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == {schema.mlflow: revision for revision, schema in SCHEMAS.items()}
