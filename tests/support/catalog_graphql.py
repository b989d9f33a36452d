"""Asking a store in GraphQL, in the test's own process."""

from typing import Any

from graphql import get_directive_values

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from mlcat_ingest.catalog.web.graphql.schema import executable_schema


def ask(store: Store, query: str, **variables: Any) -> Any:
    """Return the data of a query that must succeed."""
    reply = answer(store, query, variables)
    assert "errors" not in reply, reply["errors"]
    return reply["data"]


def read(store: Store, urn: str, fields: str, fragments: str = "") -> Any:
    """Return fields of any entity, read by `entity`; the query must succeed."""
    query = f"query ($urn: String!) {{ entity(urn: $urn) {{ {fields} }} }}{fragments}"
    return ask(store, query, urn=urn)["entity"]


def refused(store: Store, query: str, **variables: Any) -> Any:
    """Return the only error of a query that must fail."""
    reply = answer(store, query, variables)
    (error,) = reply["errors"]
    return error


def root_clients() -> dict[str, str]:
    """Return the client that each root field names; a field that names none is an error."""
    schema = executable_schema()
    assert schema.query_type
    assert schema.mutation_type
    directive = schema.get_directive("client")
    assert directive
    clients = {}
    for name, field in (schema.query_type.fields | schema.mutation_type.fields).items():
        assert field.ast_node
        named = get_directive_values(directive, field.ast_node)
        assert named, f"the root field {name} names no client"
        clients[name] = named["name"]
    return clients
