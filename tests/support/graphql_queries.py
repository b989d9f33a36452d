"""GraphQL queries made from the schema, so that they ask for whatever there is."""

from graphql import (
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLOutputType,
    get_named_type,
    is_leaf_type,
    is_required_argument,
)

from mlcat_ingest.catalog.web.graphql.nodes import kind_of
from mlcat_ingest.catalog.web.graphql.schema import executable_schema


def whole_entity(entity_type: str, depth: int = 4) -> str:
    """Return a query of all that is known of an entity, `$urn`."""
    name = kind_of(entity_type).type_name
    form = executable_schema().type_map[name]
    assert isinstance(form, GraphQLObjectType)
    fields = _selection(form, depth)
    return f"query ($urn: String!) {{entity(urn: $urn){{... on {name}{fields}}}}}"


def _selection(output: GraphQLOutputType, depth: int) -> str | None:
    """Return the selection of all fields down to `depth`; None where there is no room for any."""
    named = get_named_type(output)
    if is_leaf_type(named):
        return ""
    if depth == 0:
        return None
    chosen = ["__typename"]
    if isinstance(named, GraphQLObjectType | GraphQLInterfaceType):
        for name, field in named.fields.items():
            inner = _selection(field.type, depth - 1)
            if inner is not None and not any(map(is_required_argument, field.args.values())):
                chosen.append(name + inner)
    return f"{{{' '.join(chosen)}}}"
