"""Which releases of MLflow have what is read."""

import pytest

from mlcat_ingest.sources.mlflow.read.checks import REVISIONS, MlflowFeature


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.22.1", []),
        ("3.0.0 and 3.1.0", ["LOGGED_MODELS"]),
        ("3.9.0", ["LOGGED_MODELS", "OUTPUTS_IN_LISTINGS"]),
        ("3.10.0rc1", ["LOGGED_MODELS", "OUTPUTS_IN_LISTINGS", "WORKSPACES"]),
        ("3.17.2", [one.name for one in MlflowFeature]),
        ("", []),
        ("unknown", []),
    ],
)
def test_a_release_has_what_came_with_it_or_before(version: str, expected: list[str]) -> None:
    assert [one.name for one in MlflowFeature if one.is_in(version)] == expected


def test_each_feature_came_between_two_revisions_of_the_schema() -> None:
    for feature in set(MlflowFeature) - {MlflowFeature.OUTPUTS_IN_LISTINGS}:
        known = [feature.is_in(releases) for releases in REVISIONS.values()]
        assert known == sorted(known)
        assert set(known) == {False, True}
