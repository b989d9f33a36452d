"""`mlcat-ingest init` and `schema`: a commented starter recipe, and the schemas of the formats."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from mlcat_ingest.cli import output

_SCHEMA: Final = "recipe.schema.json"


@click.command(
    epilog="\b\nExample:\n  mlcat-ingest init --tracking-uri http://mlflow:5000 --server "
    "http://gms:8080"
)
@click.argument("file", default="recipe.yml", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--tracking-uri", metavar="URI", help="Tracking URI of MLflow.")
@click.option("--server", metavar="URL", help="Address of the catalog service.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(file: str, tracking_uri: str | None, server: str | None, *, force: bool) -> None:
    """Write a commented starter recipe to FILE (default: recipe.yml); `-` prints it.

    Editors complete and check the recipe by recipe.schema.json, which is written beside it.
    """
    from mlcat_ingest.errors import RecipeError
    from mlcat_ingest.recipe.dump import starter_recipe
    from mlcat_ingest.workflows.schema import json_schema

    shown = "recipe.yml" if file == "-" else file
    name = "mlflow" if Path(shown).stem == "recipe" else Path(shown).stem
    try:
        text = starter_recipe(tracking_uri=tracking_uri, server=server, name=name, file=shown)
    except RecipeError as error:
        raise click.UsageError(str(error)) from None
    if file == "-":
        click.echo(text, nl=False)
        return
    mode = "w" if force else "x"
    try:
        with Path(file).open(mode, encoding="utf-8") as stream:
            stream.write(text)
        with (
            suppress(FileExistsError),
            Path(file).with_name(_SCHEMA).open(mode, encoding="utf-8") as stream,
        ):
            json.dump(json_schema(), stream, indent=2, ensure_ascii=False)
    except FileExistsError:
        raise click.UsageError(f"{file} already exists; --force overwrites it") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {file} and {_SCHEMA}; next: mlcat-ingest check {file}", err=True)


@click.command(epilog="\b\nExample:\n  mlcat-ingest schema > recipe.schema.json")
@click.argument("what", type=click.Choice(["recipe", "definitions", "tests"]), default="recipe")
def schema_command(what: str) -> None:
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
