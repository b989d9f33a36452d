"""What DataHub's clients find in the schema: names and shapes, field by field."""

import pytest
from graphql import GraphQLNonNull, GraphQLObjectType, validate_schema

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.entity_types import ENTITY, GOVERNED
from mlcat_ingest.catalog.web.graphql.resolvers import ENTITY_TYPES, KINDS
from mlcat_ingest.catalog.web.graphql.schema import RESOLVERS, executable_schema
from mlcat_ingest.catalog.web.graphql.search import LINEAGE
from mlcat_ingest.metadata.registry import ASPECTS
from support.catalog_graphql import read
from support.catalog_store import put

COMMON = (
    "urn! type! name! lastIngested exists ownership:Ownership institutionalMemory status "
    "deprecation dataPlatformInstance tags:GlobalTags glossaryTerms domain editableProperties "
    "structuredProperties forms privileges aspects relationships lineage browsePathV2:BrowsePathV2 "
    "description:String"
)
PLACED = "platform:DataPlatform origin:FabricType"
FEATURE = "featureNamespace! dataType:MLFeatureDataType"
PROPERTIES = "description:String customProperties"

TYPES = {
    "MLModel": f"{COMMON} {PLACED} properties:MLModelProperties versionProperties",
    "MLModelGroup": f"{COMMON} {PLACED} properties:MLModelGroupProperties",
    "MLFeature": f"{COMMON} {FEATURE} properties:MLFeatureProperties featureProperties",
    "MLPrimaryKey": f"{COMMON} {FEATURE} properties:MLPrimaryKeyProperties primaryKeyProperties",
    "MLFeatureTable": f"{COMMON} platform properties:MLFeatureTableProperties "
    "featureTableProperties",
    "MLModelProperties": f"{PROPERTIES} name date:Long version:String type hyperParams "
    "hyperParameters:HyperParameterMap trainingMetrics mlFeatures:[String!] tags:[String!] groups! "
    "externalUrl created:AuditStamp lastModified:AuditStamp mlModelLineageInfo",
    "MLModelGroupProperties": f"{PROPERTIES} name createdAt:Long version:VersionTag created "
    "lastModified externalUrl mlModelLineageInfo",
    "MLFeatureProperties": f"{PROPERTIES} dataType version:VersionTag sources:[Dataset!]",
    "MLPrimaryKeyProperties": f"{PROPERTIES} dataType version:VersionTag sources:[Dataset!]",
    "MLFeatureTableProperties": f"{PROPERTIES} mlFeatures:[MLFeature!] mlPrimaryKeys",
    "Dataset": "lineage versionProperties platform container properties",
    "EntityRelationshipsResult": "start:Int count:Int total:Int relationships!",
    "EntityLineageResult": "start:Int count:Int total:Int filtered:Int relationships!",
}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_type_has_its_fields(name: str) -> None:
    owner = executable_schema().type_map[name]
    assert isinstance(owner, GraphQLObjectType)
    for wanted in TYPES[name].split():
        field, _, kind = wanted.partition(":")
        found = str(owner.fields[field.removesuffix("!")].type)
        assert found.endswith("!") == field.endswith("!"), f"{wanted} is {found}"
        assert kind in {"", found}


@pytest.mark.parametrize(
    "name", ["MLModel", "MLModelGroup", "MLFeature", "MLFeatureTable", "MLPrimaryKey"]
)
def test_what_datahub_gives_no_model_no_model_has(name: str) -> None:
    owner = executable_schema().type_map[name]
    assert isinstance(owner, GraphQLObjectType)
    assert not {"subTypes", "container", "testResults", "health"} & set(owner.fields)


def test_the_schema_is_valid() -> None:
    assert validate_schema(executable_schema()) == []


def test_every_entity_type_has_a_name_and_a_form() -> None:
    schema = executable_schema()
    values = schema.type_map["EntityType"].values  # type: ignore[attr-defined]
    assert set(values) == {*ENTITY_TYPES, "OTHER", "RESTRICTED"}
    forms = {made.name for made in schema.get_possible_types(schema.type_map["Entity"])}  # type: ignore[arg-type]
    assert {kind.type_name for kind in KINDS.values()} == forms


def test_every_resolver_has_a_field_and_every_field_of_an_entity_is_resolved() -> None:
    schema = executable_schema()
    for owner, field in RESOLVERS:
        assert field in schema.type_map[owner].fields  # type: ignore[attr-defined]
    common = {*ENTITY, *GOVERNED, *LINEAGE, *ASPECTS}
    for made in schema.get_possible_types(schema.type_map["Entity"]):  # type: ignore[arg-type]
        own = {field for owner, field in RESOLVERS if owner == made.name}
        others = made.fields.keys() - common - own
        directives = [made.fields[name].ast_node.directives for name in others]
        assert all(one[0].name.value == "unanswered" for one in directives), made.name


def test_fields_that_are_never_answered_may_be_null(store: Store) -> None:
    schema = executable_schema()
    unanswered = [
        field
        for made in schema.type_map.values()
        if isinstance(made, GraphQLObjectType)
        for field in made.fields.values()
        if field.ast_node
        and any(one.name.value == "unanswered" for one in field.ast_node.directives)
    ]
    assert unanswered
    assert not any(isinstance(field.type, GraphQLNonNull) for field in unanswered)
    domain = "urn:li:domain:d"
    put(store, domain, domainProperties={"name": "D", "parentDomain": domain})
    fields = "... on Domain { properties { name } parentDomains { count } entities { total } }"
    assert read(store, domain, fields) == {
        "properties": {"name": "D"},
        "parentDomains": None,
        "entities": None,
    }


def test_what_an_interface_declares_its_types_have() -> None:
    """The SDL says it once; the loader hands it down, arguments and all."""
    schema = executable_schema()
    for made in schema.type_map.values():
        if isinstance(made, GraphQLObjectType):
            for interface in made.interfaces:
                for name, field in interface.fields.items():
                    assert str(made.fields[name].type) == str(field.type)
                    assert made.fields[name].args.keys() == field.args.keys()
