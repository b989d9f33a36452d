"""`mlcat-ingest demo`: real models, a real MLflow store, a catalog to look at."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import stop_on_sigterm
from mlcat_ingest.cli.options import OutputSettings, output_options
from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import CatalogUnavailableError

TESTS_FILE: Final = Path(__file__).with_name("metadata_tests.yml")
CATALOG_FILE: Final = "catalog.db"
RECIPE_FILE: Final = "recipe.yml"

_ADDRESS: Final = re.compile(r"http://\S+")
_STOP_TIMEOUT_S: Final = 20

_RECIPE: Final = """\
# What `mlcat-ingest demo` ran; run it again with `mlcat-ingest {path}`.
name: demo
sources:
  - type: feast
    config:
      registry: {registry}
  - type: mlflow
    config:
      tracking_uri: sqlite:///mlflow.db
sink:
  type: embedded
  config:
    db: {catalog}
"""


@click.command(
    epilog="\b\nExamples:\n  mlcat-ingest demo\n  mlcat-ingest demo --dir /tmp/demo --no-serve"
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("mlcat-demo"),
    show_default=True,
    metavar="DIR",
    help="Where the MLflow store, the catalog and the recipe are kept.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port of the catalog's pages; a free one unless given.",
)
@click.option("--no-serve", is_flag=True, help="Stop after the report.")
@output_options
def command(folder: Path, port: int, *, no_serve: bool) -> int:
    """Train small models, ingest them, and serve the catalog until Ctrl-C.

    Trains real scikit-learn models into an MLflow store in DIR, ingests a Feast registry and the
    store into an embedded catalog over HTTP, links models to the features they were trained on,
    evaluates a few metadata tests and prints the report. Models that DIR holds already are used
    again. Needs the extra: pip install 'mlcat-ingest[demo]'.
    """
    require_extra("demo", "the demo")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{folder} cannot be made: {error.strerror}") from error
    with stop_on_sigterm(), _catalog(folder / CATALOG_FILE, port) as (server, address):
        output.out(f"Catalog: {address}")
        _train(folder)
        _push_tests(address)
        code = _ingest(folder)
        if not no_serve:
            output.out(f"\nOpen {address} to look around; Ctrl-C stops it.")
            _wait(server)
    return code


def _wait(server: "subprocess.Popen[str]") -> None:
    try:
        server.wait()
    except KeyboardInterrupt:
        output.print_message("stopped")


@contextmanager
def _catalog(database: Path, port: int) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run `catalog serve` on `database` while the block lasts; give its process and address."""
    arguments = ["catalog", "serve", "--db", str(database), "--port", str(port)]
    server = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "mlcat_ingest", *arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        line = server.stdout.readline() if server.stdout else ""
        address = _ADDRESS.search(line)
        if address is None:
            raise CatalogUnavailableError(
                "the embedded catalog did not start", hint="its own message stands above"
            )
        yield server, address[0]
    finally:
        server.terminate()
        server.wait(_STOP_TIMEOUT_S)
        if server.stdout:
            server.stdout.close()


def _train(folder: Path) -> None:
    from mlcat_ingest.cli.demo.train import STORE_FILE, train_models

    done = folder / ".trained"
    if done.exists() and (folder / STORE_FILE).exists():
        output.print_message(f"Using the models in {folder / STORE_FILE}")
        return
    output.print_message(f"Training small scikit-learn models into {folder / STORE_FILE} …")
    runs = train_models(folder)
    done.touch()
    output.print_message(f"Trained: {runs} MLflow runs")


def _push_tests(address: str) -> None:
    from mlcat_ingest.client.catalog_client import CatalogClient
    from mlcat_ingest.recipe.metadata_test_files import read_tests

    with CatalogClient(address) as client:
        for refused in client.write(read_tests(TESTS_FILE)):
            raise refused


def _ingest(folder: Path) -> int:
    from mlcat_ingest.cli.demo.train import REGISTRY_FILE, put_registry
    from mlcat_ingest.pipeline.report.render import as_text
    from mlcat_ingest.recipe.model import Recipe
    from mlcat_ingest.workflows.ingest import Pipeline

    put_registry(folder)
    recipe = folder / RECIPE_FILE
    if not recipe.exists():
        text = _RECIPE.format(path=recipe, registry=REGISTRY_FILE, catalog=CATALOG_FILE)
        recipe.write_text(text, encoding="utf-8")
    with output.progress(quiet=OutputSettings.current().quiet) as progress:
        report = Pipeline(Recipe.load(recipe)).run(progress)
    output.out("\n" + as_text(report))
    return report.exit_code
