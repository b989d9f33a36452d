"""`mlcat-ingest schema`: print the JSON Schema of recipes."""

import json

import click


@click.command(epilog="\b\nExample:\n  mlcat-ingest schema > recipe.schema.json")
def command() -> None:
    """Print the JSON Schema of recipes, with every installed source and sink.

    Editors complete and check a recipe that begins with the line
    `# yaml-language-server: $schema=recipe.schema.json`.
    """
    from mlcat_ingest.pipeline.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
