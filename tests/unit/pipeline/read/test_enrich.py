"""Enrich rules over what a source says: what they add, where, and what they take back."""

from collections.abc import Sequence
from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.read.enrich import Enricher
from mlcat_ingest.recipe.model import EnrichRule

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,run-1,PROD)"
FEATURE = "urn:li:mlFeature:(people,age)"
RULES = MergeRules(Writer("nightly"))


def a_rule(**values: Any) -> EnrichRule:
    return EnrichRule.model_validate(values)


def a_model(name: str = "churn 1", **aspects: Aspect) -> Entity:
    properties = {"name": name, "customProperties": {"team": "growth"}}
    return Entity(MODEL, {**aspects, "mlModelProperties": properties})


def enriched(entity: Entity, *rules: EnrichRule) -> Entity:
    *_, last = Enricher(rules).apply([entity])
    return last


def stored_after(entity: Entity, stored: dict[str, StoredAspect] | None) -> dict[str, StoredAspect]:
    merged = merge_entity(entity, stored, RULES)
    after = dict(stored or {})
    for one in merged.proposals:
        after[one.aspect_name] = StoredAspect(one.aspect, "1")
    return after


def test_everything_a_rule_can_add() -> None:
    rule = a_rule(
        add_tags=["pii"],
        add_terms=["Loss"],
        set_domain="growth",
        add_owners=["jane", {"owner": "urn:li:corpGroup:ml", "type": "urn:li:ownershipType:x"}],
        structured_properties={"tier": [1, "gold"]},
    )
    tag, model = Enricher([rule]).apply([a_model()])
    assert tag == Entity("urn:li:tag:pii", {"tagProperties": {"name": "pii"}}, only_if_absent=True)
    assert {name: model.aspects[name] for name in model.aspects if "Model" not in name} == {
        "globalTags": {"tags": [{"tag": "urn:li:tag:pii"}]},
        "glossaryTerms": {
            "terms": [{"urn": "urn:li:glossaryTerm:Loss"}],
            "auditStamp": {"time": 0, "actor": "urn:li:corpuser:unknown"},
        },
        "domains": {"domains": ["urn:li:domain:growth"]},
        "ownership": {
            "owners": [
                {"owner": "urn:li:corpuser:jane", "type": "TECHNICAL_OWNER"},
                {
                    "owner": "urn:li:corpGroup:ml",
                    "type": "CUSTOM",
                    "typeUrn": "urn:li:ownershipType:x",
                },
            ]
        },
        "structuredProperties": {
            "properties": [
                {
                    "propertyUrn": "urn:li:structuredProperty:tier",
                    "values": [{"double": 1.0}, {"string": "gold"}],
                }
            ]
        },
    }


@pytest.mark.parametrize(
    ("match", "hit"),
    [
        ({}, True),
        ({"entity": "mlModel"}, True),
        ({"entity": ["mlFeature", "mlModelGroup"]}, False),
        ({"name": "churn"}, True),
        ({"name": "hurn"}, False),
        ({"urn": ".*,run-1,PROD"}, True),
        ({"urn": ".*DEV"}, False),
        ({"properties": {"team": "gro"}}, True),
        ({"properties": {"team": "gro$"}}, False),
        ({"properties": {"team": ".*"}}, True),
        ({"properties": {"nothing": ".*"}}, False),
        ({"entity": "mlModel", "name": "churn", "urn": "nothing"}, False),
    ],
)
def test_a_rule_is_for_what_fulfils_all_of_its_match(match: dict[str, Any], *, hit: bool) -> None:
    model = enriched(a_model(), a_rule(match=match, add_tags=["x"]))
    assert ("globalTags" in model.aspects) is hit


def test_a_name_is_read_off_the_urn_where_nothing_else_gives_one() -> None:
    feature = Entity(FEATURE, {"mlFeatureProperties": {"description": "d"}})
    assert "globalTags" in enriched(feature, a_rule(match={"name": "age$"}, add_tags="x")).aspects


def test_rules_add_to_the_source_and_to_each_other() -> None:
    message = {"tags": [{"tag": "urn:li:tag:source"}]}
    rules = [a_rule(add_tags=["a", "source"]), a_rule(add_tags=["b"]), a_rule(add_tags=["a"])]
    tags = enriched(a_model(globalTags=message), *rules).aspects["globalTags"]["tags"]
    assert [entry["tag"] for entry in tags] == [f"urn:li:tag:{name}" for name in ("source", *"ab")]


def test_the_last_rule_says_the_values_of_a_structured_property() -> None:
    rules = [a_rule(structured_properties={"tier": value}) for value in (1, "gold")]
    assert enriched(a_model(), *rules).aspects["structuredProperties"]["properties"] == [
        {"propertyUrn": "urn:li:structuredProperty:tier", "values": [{"string": "gold"}]}
    ]


@pytest.mark.parametrize(
    "entity",
    [
        Entity("urn:li:tag:x", {"tagProperties": {"name": "x"}}, only_if_absent=True),
        Entity(MODEL, {"status": {"removed": True}}),
        Entity("urn:li:dataset:(urn:li:dataPlatform:s3,b,PROD)", {"status": {"removed": False}}),
    ],
)
def test_what_is_only_referred_to_or_only_there_gets_nothing(entity: Entity) -> None:
    assert list(Enricher([a_rule(add_tags="x")]).apply([entity])) == [entity]


DEPLOYMENT = "urn:li:mlModelDeployment:(urn:li:dataPlatform:sagemaker,blue,PROD)"


def test_what_a_type_cannot_have_is_noted_and_the_rest_of_the_rule_added() -> None:
    held = Entity(DEPLOYMENT, {"mlModelDeploymentProperties": {"customProperties": {}}})
    rules = [a_rule(match={"name": "green"}, set_domain="x"), a_rule(set_domain="x", add_tags="y")]
    deployment = enriched(held, *rules)
    assert [*deployment.aspects] == ["mlModelDeploymentProperties", "globalTags"]
    assert deployment.notes == (
        Note("rule_does_not_fit", "enrich[1].set_domain: mlModelDeployment has no such aspect"),
    )


def test_a_type_that_can_have_nothing_of_rules_is_passed_over() -> None:
    run = Entity("urn:li:dataProcessInstance:r", {"dataProcessInstanceProperties": {"name": "r"}})
    rules = [a_rule(add_tags="x", set_domain="x"), a_rule(add_owners=["ada"], add_terms=["x"])]
    assert list(Enricher(rules).apply([run])) == [run]


def test_a_tag_that_a_type_cannot_have_is_not_made() -> None:
    held = Entity("urn:li:versionSet:(v,mlModel)", {"versionSetProperties": {"latest": "x"}})
    assert [one.urn for one in Enricher([a_rule(add_tags="y")]).apply([held])] == [held.urn]


def test_what_a_source_says_is_not_held_against_the_table_of_types() -> None:
    held: dict[str, Aspect] = {
        "mlModelDeploymentProperties": {"customProperties": {}},
        "domains": {"domains": ["x"]},
    }
    assert enriched(Entity(DEPLOYMENT, held)).aspects == held


def test_what_a_rule_stops_adding_goes_and_what_people_added_stays() -> None:
    rule = a_rule(add_terms=["ours"], set_domain="ours", structured_properties={"ours": 1})
    stored = stored_after(enriched(a_model(), rule), None)
    terms = stored["glossaryTerms"].value
    theirs = {"urn": "urn:li:glossaryTerm:theirs"}
    stamp = {"time": 7, "actor": "urn:li:corpuser:jane"}
    stored["glossaryTerms"] = StoredAspect(
        {"terms": [*terms["terms"], theirs], "auditStamp": stamp}, "2"
    )
    again = stored_after(enriched(a_model(), rule), stored)
    assert again == stored
    after = stored_after(enriched(a_model()), stored)
    assert after["glossaryTerms"].value == {"terms": [theirs], "auditStamp": stamp}
    assert after["domains"].value == {"domains": []}
    assert after["structuredProperties"].value == {"properties": []}


def test_a_rule_takes_nothing_from_what_the_source_could_not_read() -> None:
    """A source that lacks the permission for tags leaves them out."""
    message = a_model(globalTags={"tags": [{"tag": "urn:li:tag:of-the-source"}]})
    stored = stored_after(enriched(message, a_rule(add_tags=["old"])), None)
    stored = stored_after(enriched(a_model(), a_rule(add_tags=["new"])), stored)
    tags = stored["globalTags"].value["tags"]
    assert [one["tag"].rpartition(":")[2] for one in tags] == ["of-the-source", "old", "new"]
    stored = stored_after(enriched(message, a_rule(add_tags=["new"])), stored)
    tags = stored["globalTags"].value["tags"]
    assert [one["tag"].rpartition(":")[2] for one in tags] == ["of-the-source", "new"]


def test_a_domain_that_people_chose_stays_first() -> None:
    chosen: Sequence[str] = ["urn:li:domain:theirs"]
    stored = {"domains": StoredAspect({"domains": chosen}, "1")}
    after = stored_after(enriched(a_model(), a_rule(set_domain="ours")), stored)
    assert after["domains"].value == {"domains": [*chosen, "urn:li:domain:ours"]}


def test_without_rules_nothing_more_is_written() -> None:
    merged = merge_entity(enriched(a_model()), None, RULES)
    assert [one.aspect_name for one in merged.proposals] == ["mlModelProperties"]


def test_a_card_in_a_recipe_fills_aspects_beside_what_people_wrote() -> None:
    rule = a_rule(
        match={"name": "churn"},
        model_card={"Intended use": "rank", "risks": ["a", "b"], "recommendations": "weekly"},
    )
    caveats = "mlModelCaveatsAndRecommendations"
    by_person = {caveats: StoredAspect({"recommendations": "ask"}, "1")}
    stored = stored_after(enriched(a_model(), rule), by_person)
    assert stored["intendedUse"].value["primaryUses"] == ["rank"]
    assert stored["mlModelEthicalConsiderations"].value["risksAndHarms"] == ["a", "b"]
    assert stored[caveats].value == {"recommendations": "ask"}
    other = a_rule(match={"name": "else"}, model_card={"uses": "x"})
    stored = stored_after(enriched(a_model(), other), stored)
    assert stored["intendedUse"].value["primaryUses"] == []
    assert not enriched(a_model(), a_rule(add_tags="x")).aspects.keys() & {caveats, "intendedUse"}
    feature = Entity(FEATURE, {"mlFeatureProperties": {"description": "d"}})
    note = "enrich[0].model_card: mlFeature has no such aspect"
    assert enriched(feature, a_rule(model_card={"uses": "x"})).notes == (
        Note("rule_does_not_fit", note),
    )


def test_a_heading_of_no_card_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ValueError, match="did you mean `intended use`"):
        a_rule(model_card={"intended usage": "x"})
