"""`docs/reference/verify.md` names the outcomes, the limits and the filters that there are."""

from pathlib import Path

from mlcat_ingest.sources.mlflow.config import RunsConfig
from mlcat_ingest.sources.mlflow.values.joined import LIMITS
from mlcat_ingest.workflows.verify_result import OUTCOMES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "verify.md").read_text()


def test_every_outcome_has_a_row() -> None:
    assert [one for one in OUTCOMES if f"| `{one}` |" not in PAGE] == []


def test_limits_are_those_of_the_source() -> None:
    words = (
        f"a value at {LIMITS.value_chars:,} characters, a name at {LIMITS.name_chars}",
        f"a description at {LIMITS.description_chars:,}",
        f"{LIMITS.params:,} parameters, {LIMITS.metrics:,} metrics and {LIMITS.tags}",
    )
    assert [one for one in words if one not in " ".join(PAGE.split())] == []


def test_every_filter_of_runs_is_named() -> None:
    named = {one for one in RunsConfig.model_fields if f"`runs.{one}`" in PAGE}
    assert RunsConfig.model_fields.keys() - named == {"stale_running_after"}
