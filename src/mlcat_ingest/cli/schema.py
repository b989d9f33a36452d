"""`mlcat-ingest schema`: print the JSON Schema of recipes, or of files of definitions or tests."""

import click

from mlcat_ingest.cli import output


@click.command(epilog="\b\nExample:\n  mlcat-ingest schema > recipe.schema.json")
@click.argument("what", type=click.Choice(["recipe", "definitions", "tests"]), default="recipe")
def command(what: str) -> None:
    """Print the JSON Schema of recipes, with every installed source and sink.

    `definitions` prints the schema of feature-store definitions files, `tests` that of
    metadata-test files. Editors complete and check a recipe whose first line is `#
    yaml-language-server: $schema=recipe.schema.json`.
    """
    from mlcat_ingest.workflows import schema

    schemas = {
        "recipe": schema.json_schema,
        "definitions": schema.definitions_schema,
        "tests": schema.metadata_tests_schema,
    }
    output.out_json(schemas[what]())
