"""Variables as clients send them: whole numbers may come as text."""

from collections.abc import Mapping
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLSchema,
    OperationDefinitionNode,
    get_nullable_type,
    type_from_ast,
)


def with_whole_numbers(
    schema: GraphQLSchema, document: DocumentNode, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `variables` with text such as "0" as a number wherever an Int is asked for.

    DataHub's server takes such text and its clients send it; graphql-core alone refuses it.
    """
    whole = dict(variables)
    for definition in document.definitions:
        if not whole or not isinstance(definition, OperationDefinitionNode):
            continue
        for variable in definition.variable_definitions:
            name = variable.variable.name.value
            if name in whole:
                whole[name] = _whole(type_from_ast(schema, variable.type), whole[name])
    return whole


def _whole(wanted: Any, value: Any) -> Any:
    wanted = get_nullable_type(wanted)
    if wanted is GraphQLInt and isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    if isinstance(wanted, GraphQLList) and isinstance(value, list):
        return [_whole(wanted.of_type, item) for item in value]
    if isinstance(wanted, GraphQLInputObjectType) and isinstance(value, dict):
        return {
            key: _whole(wanted.fields[key].type, item) if key in wanted.fields else item
            for key, item in value.items()
        }
    return value
