"""`mlcat-ingest schema`: print the JSON Schema of recipes, or of definitions files."""

import click

from mlcat_ingest.cli import output


@click.command(epilog="\b\nExample:\n  mlcat-ingest schema > recipe.schema.json")
@click.argument("what", type=click.Choice(["recipe", "definitions"]), default="recipe")
def command(what: str) -> None:
    """Print the JSON Schema of recipes, with every installed source and sink.

    `definitions` prints that of the definitions files of feature stores. Editors complete and
    check a recipe that begins with the line
    `# yaml-language-server: $schema=recipe.schema.json`.
    """
    from mlcat_ingest.workflows.schema import definitions_schema, json_schema

    schema = json_schema() if what == "recipe" else definitions_schema()
    output.out_json(schema)
