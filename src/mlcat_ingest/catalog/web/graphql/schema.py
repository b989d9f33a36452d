"""The executable schema: the SDL files as one document, with the resolver tables attached."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from graphql import (
    DefinitionNode,
    DocumentNode,
    FieldDefinitionNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    InterfaceTypeDefinitionNode,
    IntValueNode,
    ObjectTypeDefinitionNode,
    ValueNode,
    build_ast_schema,
    get_named_type,
    parse,
)

from mlcat_ingest.catalog.web.graphql.entity_types import (
    BOXES,
    ENTITY,
    GOVERNED,
    LOOK_UPS,
    PROPERTY_VALUES,
    RECORDS,
    TYPES,
    custom_properties,
)
from mlcat_ingest.catalog.web.graphql.mutations import MUTATIONS
from mlcat_ingest.catalog.web.graphql.resolvers import Fields, Node, Resolver, associated_urn, plain
from mlcat_ingest.catalog.web.graphql.search import LINEAGE, LINEAGE_SEARCH, SEARCH

_TABLES: Final[Sequence[Mapping[str, Fields]]] = (
    {"Query": LOOK_UPS, "Mutation": MUTATIONS},
    TYPES,
    RECORDS,
    SEARCH,
    LINEAGE_SEARCH,
)
"""Object type and field to resolver, a table a subject."""

_ENTITY_FIELDS: Final[Fields] = {**ENTITY, **GOVERNED, **LINEAGE}
"""The resolvers of entities' fields, for types whose table does not name the field."""

_RECORD_FIELDS: Final[Fields] = {
    "customProperties": custom_properties,
    "associatedUrn": associated_urn,
}
"""The resolvers of records' fields that are the same in every type."""

_BOXED: Final[Mapping[str, Mapping[str, str]]] = {
    "HyperParameterValueType": BOXES,
    "PropertyValue": PROPERTY_VALUES,
}
"""Union of values, and the only field that a member has, to the member's type."""

_UNANSWERED: Final = "unanswered"
"""The directive of the fields that are always null."""

_INT64: Final = range(-(2**63), 2**63)


@lru_cache(maxsize=1)
def executable_schema() -> GraphQLSchema:
    """Return the schema with its resolvers; it is made once a process.

    Raises:
        TypeError: a resolver has no field in the SDL, or a field of an entity has no resolver.
    """
    schema = build_ast_schema(_schema_document())
    for table in _TABLES:
        for name, fields in table.items():
            _attach(_object_type(schema, name), fields)
    for named in schema.type_map.values():
        if isinstance(named, GraphQLObjectType):
            _complete(named)
        elif isinstance(named, GraphQLInterfaceType | GraphQLUnionType):
            named.resolve_type = _type_name
    _make_long(schema.type_map["Long"])
    return schema


def _object_type(schema: GraphQLSchema, name: str) -> GraphQLObjectType:
    kind = schema.type_map.get(name)
    if not isinstance(kind, GraphQLObjectType):
        raise TypeError(f"resolvers for {name}, which is not an object type of the schema")
    return kind


def _attach(owner: GraphQLObjectType, fields: Fields) -> None:
    for name, resolver in fields.items():
        if name not in owner.fields:
            raise TypeError(f"a resolver for {owner.name}.{name}, which is not in the schema")
        owner.fields[name].resolve = resolver


def _complete(owner: GraphQLObjectType) -> None:
    """Give fields without a resolver the common one, and enum fields their check of values."""
    is_entity = any(interface.name == "Entity" for interface in owner.interfaces)
    for name, field in owner.fields.items():
        if _is_unanswered(field):
            field.resolve = _null
        if is_entity and field.resolve is None:
            if name not in _ENTITY_FIELDS:
                raise TypeError(f"no resolver for {owner.name}.{name}")
            field.resolve = _ENTITY_FIELDS[name]
        elif field.resolve is None and name in _RECORD_FIELDS:
            field.resolve = _RECORD_FIELDS[name]
        enum = get_named_type(field.type)
        if isinstance(enum, GraphQLEnumType) and not owner.name.startswith("__"):
            field.resolve = _enum_resolver(field.resolve or plain, enum)


def _is_unanswered(field: GraphQLField) -> bool:
    directives = (field.ast_node and field.ast_node.directives) or ()
    return any(directive.name.value == _UNANSWERED for directive in directives)


def _null(_source: object, _info: GraphQLResolveInfo, **_arguments: object) -> None:
    """Return nothing, whatever is stored."""


def _enum_resolver(resolve: Resolver, enum: GraphQLEnumType) -> Resolver:
    """Read stored text that the enum lacks as null, not as an error of the whole field."""

    def resolve_enum(source: Any, info: GraphQLResolveInfo) -> Any:
        value = resolve(source, info)
        return value if isinstance(value, str) and value in enum.values else None

    return resolve_enum


def _type_name(
    value: Any, _info: GraphQLResolveInfo, abstract: GraphQLInterfaceType | GraphQLUnionType
) -> str:
    if isinstance(value, Node):
        return value.kind.type_name
    return _BOXED[abstract.name][next(iter(value.value))]


def _long(value: object) -> int:
    """Return `value` as a whole number; clients send numbers as text, too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
        raise GraphQLError(f"Long cannot represent {str(value)[:80]!r}")
    return value


def _long_literal(node: ValueNode, _variables: object = None) -> int:
    if not isinstance(node, IntValueNode):
        raise GraphQLError("Long cannot represent this literal", node)
    return _long(int(node.value))


def _make_long(scalar: object) -> None:
    if not isinstance(scalar, GraphQLScalarType):
        raise TypeError("the schema has no scalar Long")
    # mypy takes an assignment to a method for a mistake.
    vars(scalar).update(serialize=_long, parse_value=_long, parse_literal=_long_literal)


def _schema_document() -> DocumentNode:
    """Return the definitions of every file, each object type with the fields of its interfaces.

    SDL has no inheritance: a type has to repeat what its interfaces declare. In our files a field
    that many types share is declared once, at the interface, and copied here. A field that
    a type declares itself stays as it is.
    """
    folder = files("mlcat_ingest.catalog.web.graphql") / "sdl"
    texts = [
        file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".graphql")
    ]
    definitions = parse("\n".join(texts), no_location=True).definitions
    inherited = {
        definition.name.value: definition.fields
        for definition in definitions
        if isinstance(definition, InterfaceTypeDefinitionNode)
    }
    return DocumentNode(definitions=tuple(_with_fields_of(one, inherited) for one in definitions))


def _with_fields_of(
    definition: DefinitionNode, inherited: Mapping[str, Sequence[FieldDefinitionNode]]
) -> DefinitionNode:
    """Return an object type with those fields of its interfaces that it does not declare."""
    if not isinstance(definition, ObjectTypeDefinitionNode):
        return definition
    own = {field.name.value for field in definition.fields or ()}
    handed_down = (
        field
        for interface in definition.interfaces or ()
        for field in inherited.get(interface.name.value, ())
        if field.name.value not in own
    )
    parts = {key: getattr(definition, key) for key in definition.keys}
    return ObjectTypeDefinitionNode(
        **{**parts, "fields": (*handed_down, *(definition.fields or ()))}
    )
