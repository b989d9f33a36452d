"""The executable schema: the SDL with the resolver tables attached."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from graphql import (
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    IntValueNode,
    ValueNode,
    build_ast_schema,
    get_named_type,
)

from mlcat_ingest.catalog.web.graphql.definitions import schema_document
from mlcat_ingest.catalog.web.graphql.nodes import Node
from mlcat_ingest.catalog.web.graphql.resolvers.assets import ASSETS
from mlcat_ingest.catalog.web.graphql.resolvers.common import Fields, Resolver, plain
from mlcat_ingest.catalog.web.graphql.resolvers.entities import ENTITY
from mlcat_ingest.catalog.web.graphql.resolvers.governance import GOVERNED, PROPERTY_VALUES, RECORDS
from mlcat_ingest.catalog.web.graphql.resolvers.lineage import LINEAGE
from mlcat_ingest.catalog.web.graphql.resolvers.lineage_search import LINEAGE_SEARCH
from mlcat_ingest.catalog.web.graphql.resolvers.metadata_tests import METADATA_TESTS
from mlcat_ingest.catalog.web.graphql.resolvers.ml import BOXES, ML
from mlcat_ingest.catalog.web.graphql.resolvers.roots import LOOK_UPS
from mlcat_ingest.catalog.web.graphql.resolvers.search import SEARCH
from mlcat_ingest.catalog.web.graphql.resolvers.service import SERVICE
from mlcat_ingest.catalog.web.graphql.resolvers.tags import TAGS
from mlcat_ingest.catalog.web.graphql.resolvers.versions import VERSIONED, VERSIONS

_TABLES: Final[Sequence[Mapping[str, Fields]]] = (
    {"Query": LOOK_UPS},
    ML,
    ASSETS,
    RECORDS,
    VERSIONS,
    TAGS,
    SEARCH,
    LINEAGE_SEARCH,
    METADATA_TESTS,
    SERVICE,
)
"""Object type and field to resolver, a table a subject."""

_ENTITY_FIELDS: Final[Fields] = {**ENTITY, **GOVERNED, **LINEAGE, **VERSIONED}
"""What any entity may have: the resolver of a field that no table names for its type."""

_BOXED: Final[Mapping[str, Mapping[str, str]]] = {
    "HyperParameterValueType": BOXES,
    "PropertyValue": PROPERTY_VALUES,
}
"""Union of values, and the only field that a member has, to the member's type."""

_INT64: Final = range(-(2**63), 2**63)


@lru_cache(maxsize=1)
def executable_schema() -> GraphQLSchema:
    """Return the schema with its resolvers; it is made once a process.

    Raises:
        TypeError: a resolver has no field in the SDL, or a field of an entity has no resolver.
    """
    schema = build_ast_schema(schema_document())
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
    found = schema.type_map.get(name)
    if not isinstance(found, GraphQLObjectType):
        raise TypeError(f"resolvers for {name}, which is no object type of the schema")
    return found


def _attach(owner: GraphQLObjectType, fields: Fields) -> None:
    for name, resolver in fields.items():
        if name not in owner.fields:
            raise TypeError(f"a resolver for {owner.name}.{name}, which is not in the schema")
        owner.fields[name].resolve = resolver


def _complete(owner: GraphQLObjectType) -> None:
    """Give the fields of an entity the common resolvers, and enum fields their guard."""
    is_entity = any(interface.name == "Entity" for interface in owner.interfaces)
    for name, field in owner.fields.items():
        if is_entity and field.resolve is None:
            if name not in _ENTITY_FIELDS:
                raise TypeError(f"no resolver for {owner.name}.{name}")
            field.resolve = _ENTITY_FIELDS[name]
        if isinstance(get_named_type(field.type), GraphQLEnumType) and not owner.name.startswith(
            "__"
        ):
            field.resolve = _known_value(field)


def _known_value(field: GraphQLField) -> Resolver:
    """Let stored text that the enum lacks read as null, not as an error of the whole field."""
    enum = get_named_type(field.type)
    known = frozenset(enum.values) if isinstance(enum, GraphQLEnumType) else frozenset()
    resolve = field.resolve or plain

    def guarded(source: Any, info: GraphQLResolveInfo) -> Any:
        value = resolve(source, info)
        return value if isinstance(value, str) and value in known else None

    return guarded


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
    for name, function in (
        ("serialize", _long),
        ("parse_value", _long),
        ("parse_literal", _long_literal),
    ):
        setattr(scalar, name, function)
