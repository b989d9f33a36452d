"""Enrich rules as they stand in a recipe: names become URNs, and what is wrong is told."""

import pytest

from mlcat_ingest.errors import RecipeValidationError
from mlcat_ingest.recipe.model import EnrichRule, OwnerRule, Recipe


def rules(text: str) -> list[EnrichRule]:
    return Recipe.parse(f"source: {{type: mlflow}}\nenrich:\n  - {text}").enrich


def test_names_become_urns_and_one_value_a_list() -> None:
    (rule,) = rules(
        "{match: {entity: mlModel}, add_tags: pii, add_terms: Finance.Loss, set_domain: growth,"
        " add_owners: [jane, {owner: 'urn:li:corpGroup:ml', type: DATAOWNER}],"
        " structured_properties: {io.acme.tier: [1, gold]}}"
    )
    assert rule.match.entity == ("mlModel",)
    assert rule.add_tags == ("urn:li:tag:pii",)
    assert rule.add_terms == ("urn:li:glossaryTerm:Finance.Loss",)
    assert rule.set_domain == "urn:li:domain:growth"
    assert rule.add_owners == (
        OwnerRule(owner="urn:li:corpuser:jane", type="TECHNICAL_OWNER"),
        OwnerRule(owner="urn:li:corpGroup:ml", type="DATAOWNER"),
    )
    assert rule.structured_properties == {"urn:li:structuredProperty:io.acme.tier": (1.0, "gold")}


def test_urns_stay_as_they_are() -> None:
    (rule,) = rules("{add_tags: ['urn:li:tag:a b']}")
    assert rule.add_tags == ("urn:li:tag:a b",)
    assert rule.match.entity == ()


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{}", "enrich[0]: adds nothing; use one of add_tags"),
        ("{add_tags: []}", "enrich[0]: adds nothing"),
        ("{match: {entity: dataset}, add_tags: a}", "enrich[0].match.entity: must be 'mlModel'"),
        ("{match: {name: '('}, add_tags: a}", "enrich[0].match.name: is not a regular expression"),
        ("{match: {properties: {k: '['}}, add_tags: a}", "enrich[0].match.properties.k: is not"),
        (
            "{add_tags: ['urn:li:corpuser:x']}",
            "enrich[0].add_tags[0]: is not the URN of a tag; use a name, or such a URN",
        ),
        (
            "{add_owners: ['urn:corpuser:x']}",
            "enrich[0].add_owners[0]: is not the URN of a corpuser or corpGroup; use a name",
        ),
        (
            "{add_owners: [{owner: j, type: 'urn:li:tag:x'}]}",
            "add_owners[0].type: is not an ownership type; use one of",
        ),
        ("{add_tags: ['urn:li:tag:(']}", "enrich[0].add_tags[0]: is not a valid tag"),
        ("{add_owners: [{owner: j, type: BOSS}]}", "add_owners[0].type: is not an owner"),
        ("{add_domain: x}", "enrich[0].add_domain: is called `set_domain`"),
        (
            "{structured_properties: {p: true}}",
            "structured_properties.p: must be a number, or must be text; put it in quotes",
        ),
        (
            "{structured_properties: {p: []}}",
            "structured_properties.p: must have 1 or more entries",
        ),
        ("{type: add_tags}", "enrich[0].type: is a list of rules"),
    ],
)
def test_what_is_wrong_is_reported(text: str, reported: str) -> None:
    with pytest.raises(RecipeValidationError) as caught:
        rules(text)
    assert any(reported in problem for problem in caught.value.problems), caught.value.problems
