"""The recipe's merge policies: which fields they may name."""

import pytest

from mlcat_ingest.errors import RecipeValidationError
from mlcat_ingest.recipe.model import Recipe, by_aspect


def recipe(merge: str) -> Recipe:
    return Recipe.parse(f"{{sources: [{{type: mlflow}}], merge: {merge}}}")


def test_policies_are_reported_by_aspect_and_field() -> None:
    made = recipe(
        "{mlModelProperties.groups: union, mlModelProperties.description: ours,"
        " displayProperties.anything: three_way}"
    )
    assert by_aspect(made.merge) == {
        "mlModelProperties": {"groups": "union", "description": "ours"},
        "displayProperties": {"anything": "three_way"},
    }
    assert recipe("{}").merge == {}


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        ("{groups: union}", "must be <aspect>.<field>, for example ownership.owners"),
        ("{mlModelPropertys.groups: union}", "did you mean `mlModelProperties`?"),
        ("{zzz.groups: union}", "has an unknown aspect; it must be"),
        (
            "{mlModelProperties.group: union}",
            "has an unknown field of mlModelProperties; did you mean `groups`?",
        ),
        ("{mlModelProperties.zzz: union}", "has an unknown field of mlModelProperties"),
        ("{mlModelProperties.groups: theirs}", "three_way"),
        ("{status.removed: ours}", "is never merged; delete it"),
        ("{versionProperties.isLatest: ours}", "is never merged"),
        ("{glossaryTerms.auditStamp: union}", "is never merged"),
        ("{mlModelKey.name: ours}", "is never merged"),
        ("{dataProcessInstanceRunEvent.status: union}", "is never merged"),
    ],
)
def test_a_field_that_is_not_known_is_named_with_what_was_meant(merge: str, message: str) -> None:
    with pytest.raises(RecipeValidationError) as caught:
        recipe(merge)
    assert message in str(caught.value)
    assert "merge" in str(caught.value)
