"""Checks this package's GraphQL queries against a GraphQL schema of DataHub's.

    .venv/bin/python tests/compat/releases/check_graphql.py ~/datahub/datahub-graphql-core/src/main/resources

The folder holds DataHub's own `*.graphql` files, which are one schema. Checked are the queries that
the client sends, with their variables, and the fields that users of the service select. Each query
is a line: `fits`, or what the schema does not have. The status is 1 where one does not fit.
"""  # noqa: E501 - a command is one line

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    build_schema,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values

from mlcat_ingest.client.rest.search import SEARCHABLE, Search

Query = tuple[str, str, Mapping[str, Any]]
"""What it is for, its text, and its variables."""

SELECTIONS = {
    "mlFeature": "name featureNamespace description "
    "properties { description dataType version { versionTag } }",
    "mlFeatureTable": "name description platform { name } "
    "properties { description mlFeatures { name } }",
    "mlModel": "name description "
    "properties { description version type mlFeatures groups { urn name } }",
    "mlModelGroup": "name description platform { name } properties { description }",
}
"""The fields of the four entity types in the service's interface, by root field."""


def queries() -> Iterator[Query]:
    """Yield every query of the client, recorded from its own calls, and the four selections."""
    sent: list[tuple[str, Mapping[str, Any]]] = []

    def record(text: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        sent.append((text, variables))
        return {"scrollAcrossEntities": {"total": 0}}

    search = Search(record, lambda *_: None)
    for entity_type in SEARCHABLE:
        search.entities_of_source(entity_type, "mlflow:id:default")
    list(search.members("urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"))
    search.datasets_like(["one", "two"])
    names = [f"{entity_type} of a source" for entity_type in SEARCHABLE]
    for name, (text, variables) in zip([*names, "members", "datasets"], sent, strict=True):
        yield f"client: {name}", text, variables
    for root, fields in SELECTIONS.items():
        text = f"query ($urn: String!) {{ {root}(urn: $urn) {{ {fields} }} }}"
        yield f"interface: {root}", text, {"urn": f"urn:li:{root}:x"}


def schema_in(folder: Path) -> GraphQLSchema:
    """Return the schema that the files in a folder are, taken together.

    Raises:
        FileNotFoundError: there are none.
        GraphQLError: they are no schema.
    """
    files = sorted(folder.glob("*.graphql"))
    if not files:
        raise FileNotFoundError(f"{folder} has no *.graphql file; name the folder that has them")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return build_schema(text, assume_valid=True)


def problems(schema: GraphQLSchema, text: str, variables: Mapping[str, Any]) -> list[str]:
    """Return what a schema says against a query and its variables; nothing where they fit."""
    document = parse(text)
    if errors := validate(schema, document):
        return [error.message for error in errors]
    (operation,) = (
        node for node in document.definitions if isinstance(node, OperationDefinitionNode)
    )
    values = get_variable_values(schema, operation.variable_definitions, dict(variables))
    return [error.message for error in values] if isinstance(values, list) else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each query; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="DataHub's *.graphql files")
    try:
        schema = schema_in(parser.parse_args(arguments).folder)
    except (FileNotFoundError, GraphQLError) as error:
        print(f"no schema to check against: {error}", file=sys.stderr)
        return 2
    failed = False
    for name, text, variables in queries():
        found = problems(schema, text, variables)
        failed = failed or bool(found)
        print(f"{name}: {'; '.join(found) or 'fits'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
