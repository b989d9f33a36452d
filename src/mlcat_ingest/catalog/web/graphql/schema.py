"""The executable schema: the SDL files as one document, with the resolver tables attached."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from graphql import (
    DefinitionNode,
    DocumentNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLResolveInfo,
    GraphQLSchema,
    GraphQLUnionType,
    InputObjectTypeDefinitionNode,
    InterfaceTypeDefinitionNode,
    IntValueNode,
    ObjectTypeDefinitionNode,
    ValueNode,
    build_ast_schema,
    get_named_type,
    is_list_type,
    parse,
    value_from_ast_untyped,
)
from graphql import Node as AstNode

from mlcat_ingest.catalog.web.graphql.entity_types import (
    ENTITY,
    GOVERNED,
    LOOK_UPS,
    RECORDS,
    TYPES,
    custom_properties,
)
from mlcat_ingest.catalog.web.graphql.mutations import MUTATIONS
from mlcat_ingest.catalog.web.graphql.resolvers import (
    ENTITY_TYPES,
    Fields,
    Node,
    Resolver,
    associated_urn,
    is_entity,
    plain,
    stored_at,
)
from mlcat_ingest.catalog.web.graphql.search import LINEAGE, LINEAGE_SEARCH, SEARCH

RESOLVERS: Final[Mapping[tuple[str, str], Resolver | str | int]] = {
    (owner, name): given
    for table in (
        {"Query": LOOK_UPS, "Mutation": MUTATIONS},
        TYPES,
        RECORDS,
        SEARCH,
        LINEAGE_SEARCH,
    )
    for owner, fields in table.items()
    for name, given in fields.items()
}
"""Object type and field to what resolves it, for fields that mean something of their own."""

_ENTITY_FIELDS: Final[Fields] = {**ENTITY, **GOVERNED, **LINEAGE}
"""The resolvers of entities' fields, for types whose table does not name the field."""

_RECORD_FIELDS: Final[Fields] = {
    "customProperties": custom_properties,
    "associatedUrn": associated_urn,
}
"""The resolvers of records' fields that are the same in every type."""

_UNANSWERED: Final = "unanswered"
"""The directive of the fields that are always null."""

_WithFields = ObjectTypeDefinitionNode | InterfaceTypeDefinitionNode | InputObjectTypeDefinitionNode
_WITH: Final = "with"
"""The directive of a definition that names others, whose fields it has, too."""

_SHARED: Final = "_"
"""The beginning of the names of definitions that only `@with` is for."""

_INT64: Final = range(-(2**63), 2**63)


@lru_cache(maxsize=1)
def executable_schema() -> GraphQLSchema:
    """Return the schema with its resolvers; it is made once a process."""
    schema = build_ast_schema(_schema_document())
    for named in schema.type_map.values():
        if isinstance(named, GraphQLObjectType) and not named.name.startswith("__"):
            for name, field in named.fields.items():
                field.resolve = _resolver_of(named, name, field)
        elif isinstance(named, GraphQLInterfaceType | GraphQLUnionType):
            named.resolve_type = _type_name
    # mypy takes an assignment to a method for a mistake.
    vars(schema.type_map["Long"]).update(
        serialize=_long, parse_value=_long, parse_literal=_long_literal
    )
    return schema


def _resolver_of(owner: GraphQLObjectType, name: str, field: GraphQLField) -> Resolver | None:
    """Return the resolver of a field; None is `plain`."""
    if _is_unanswered(field):
        return _null
    given = RESOLVERS.get((owner.name, name))
    if given is None:
        given = _ENTITY_FIELDS.get(name, name) if is_entity(owner) else _RECORD_FIELDS.get(name)
    wanted, named = field.type, get_named_type(field.type)
    is_list_of_records = isinstance(wanted, GraphQLNonNull) and is_list_type(wanted.of_type)
    if given is None and (is_list_of_records or is_entity(named)):
        given = name
    resolve = None if given is None else _resolver(given, wanted)
    return (
        _enum_resolver(resolve or plain, named) if isinstance(named, GraphQLEnumType) else resolve
    )


def _resolver(given: Resolver | str | int, wanted: GraphQLOutputType) -> Resolver:
    if isinstance(given, str):
        return stored_at(given, wanted)
    return given if callable(given) else lambda node, _info: node.part(given)


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
    # The members of a union of values have one field each.
    members: Sequence[GraphQLObjectType] = (
        abstract.types if isinstance(abstract, GraphQLUnionType) else ()
    )
    return next(member.name for member in members if value.value.keys() <= member.fields.keys())


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


def _schema_document() -> DocumentNode:
    """Return the definitions of every file, each with the fields that it has from others.

    SDL has no inheritance: a type has to repeat what its interfaces declare. In our files a field
    that many types share is declared once, at an interface of theirs, or at what their directive
    `@with` names, and copied here. A field that a type declares itself stays as it is.
    """
    folder = files("mlcat_ingest.catalog.web.graphql") / "sdl"
    texts = [
        file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".graphql")
    ]
    names = f"extend enum EntityType {{ {' '.join(sorted(ENTITY_TYPES))} }}"
    definitions = parse("\n".join([*texts, names]), no_location=True).definitions
    given = {one.name.value: one for one in definitions if isinstance(one, _WithFields)}
    return DocumentNode(
        definitions=tuple(
            _whole(one, given) if isinstance(one, _WithFields) else one
            for one in definitions
            if not (isinstance(one, _WithFields) and one.name.value.startswith(_SHARED))
        )
    )


def _whole(definition: _WithFields, given: Mapping[str, _WithFields]) -> DefinitionNode:
    parts = {key: getattr(definition, key) for key in definition.keys}
    directives = tuple(one for one in definition.directives or () if one.name.value != _WITH)
    fields = tuple(_fields_of(definition, given).values())
    return type(definition)(**{**parts, "directives": directives, "fields": fields})


def _fields_of(definition: _WithFields, given: Mapping[str, _WithFields]) -> dict[str, AstNode]:
    """Return the fields of a definition, those of its interfaces and of its `@with` first."""
    names = [one.name.value for one in getattr(definition, "interfaces", None) or ()]
    for directive in definition.directives or ():
        if directive.name.value == _WITH:
            names += value_from_ast_untyped(directive.arguments[0].value)
    shared = [_fields_of(given[name], given) for name in names]
    own: dict[str, AstNode] = {field.name.value: field for field in definition.fields or ()}
    return {name: field for fields in [*shared, own] for name, field in fields.items()}
