"""`mlcat-ingest query`: a GraphQL query to the catalog service."""

import json
import sys
from typing import Any

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import connect, say_options, service_options


def _object(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", context, parameter) from None
    if not isinstance(value, dict):
        raise click.BadParameter("not a JSON object", context, parameter)
    return value


@click.command(
    epilog="\b\nExample:\n"
    "  mlcat-ingest query '{ mlModelGroup(urn: \"urn:li:mlModelGroup:("
    "urn:li:dataPlatform:mlflow,iris,PROD)\") { name } }'"
)
@click.argument("graphql")
@click.option(
    "--variables", metavar="JSON", callback=_object, help="Variables of the query, one object."
)
@service_options
@say_options
def command(
    graphql: str, variables: dict[str, Any] | None, server: str | None, token: str | None
) -> None:
    """Send the query GRAPHQL (`-`: standard input) and print the reply's data as JSON."""
    if graphql == "-":
        graphql = sys.stdin.read()
    with connect(server, token) as client:
        data = client.graphql(graphql, variables)
    output.out(json.dumps(data, indent=2, ensure_ascii=False))
