"""`mlcat-ingest init`: write a commented starter recipe."""

from pathlib import Path

import click


@click.command(
    epilog="\b\nExample:\n  mlcat-ingest init --tracking-uri http://mlflow:5000 --server "
    "http://gms:8080"
)
@click.argument("file", default="recipe.yml", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--tracking-uri", metavar="URI", help="Tracking URI of MLflow.")
@click.option("--server", metavar="URL", help="Address of the catalog service.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(file: str, tracking_uri: str | None, server: str | None, *, force: bool) -> None:
    """Write a commented starter recipe to FILE (default: recipe.yml); `-` prints it."""
    from mlcat_ingest.errors import RecipeError
    from mlcat_ingest.recipe.starter import starter_recipe

    shown = "recipe.yml" if file == "-" else file
    name = "mlflow" if Path(shown).stem == "recipe" else Path(shown).stem
    try:
        text = starter_recipe(tracking_uri=tracking_uri, server=server, name=name, file=shown)
    except RecipeError as error:
        raise click.UsageError(str(error)) from None
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        with Path(file).open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise click.UsageError(f"{file} already exists; --force overwrites it") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {file}; next: mlcat-ingest check {file}", err=True)
