"""`mlcat-ingest demo`: a real MLflow store, a real feature store, a catalog to look at.

`mlflow.db.gz` is the database of an MLflow server to which `train.py` trained its models; with
`registry.db` of Feast it comes with the package, so that the demo needs neither of the two.
"""

import gzip
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import Command, OutputSettings
from mlcat_ingest.core.environment import require_extra, stop_on_signals
from mlcat_ingest.errors import CatalogUnavailableError

HERE: Final = Path(__file__).parent
CATALOG_FILE: Final = "catalog.db"
RECIPE_FILE: Final = "recipe.yml"
REGISTRY_FILE: Final = "feast-registry.db"
STORE_FILE: Final = "mlflow.db"
PORT: Final = 8765

_ADDRESS: Final = re.compile(r"http://\S+")
_STOP_TIMEOUT_S: Final = 20

_RECIPE: Final = """\
# The recipe of `mlcat-ingest demo`; run it again with `mlcat-ingest {path}`.
name: demo
sources:
  - type: feast
    config:
      registry: {registry}
  - type: mlflow
    config:
      tracking_uri: sqlite:///{store}
      instance: demo               # a prefix: your own experiments have other names
      include: [mcp_servers, prompts]
sink:
  type: embedded
  config:
    db: {catalog}
evaluate:
  verdicts:                        # what fails this test has a tag, and an incident on its page
    tag: [model-has-description]
    incident: [model-has-description]
"""


_NEXT: Final = """
Try next:
{pages}
  print a model's card      mlcat-ingest card wine-classifier:champion --recipe {recipe}
  see who is champion       mlcat-ingest when champion of wine-classifier --recipe {recipe}
  see that all has arrived  mlcat-ingest verify {recipe}
  see what a run would do   mlcat-ingest plan {recipe} --full"""
_SERVED: Final = """\
  look at the models        {address}
  and at the AI assets      {address}/kind/service and {address}/kind/document"""
_NOT_SERVED: Final = "  look at the models        mlcat-ingest catalog serve --db {database}"
_THEN: Final = """\
Then ingest your own MLflow into it: mlcat-ingest http://localhost:5000 --to {address}

Open {address} to look around; Ctrl-C stops it."""


@click.command(
    cls=Command,
    examples=["demo", "demo --dir /tmp/demo --no-serve", "demo --train --dir trained-demo"],
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("mlcat-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder of the MLflow store, the catalog and the recipe.",
)
@click.option(
    "--train",
    is_flag=True,
    help="Train the models here, with scikit-learn and MLflow (extra demo-train).",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help=f"Port of the catalog's pages. Default: {PORT}, or a free one if that is in use.",
)
@click.option("--no-serve", is_flag=True, help="Stop after the report.")
def command(folder: Path, port: int | None, *, train: bool, no_serve: bool) -> int:
    """Ingest a small real store, and serve the catalog until Ctrl-C.

    Reads the database of an MLflow store and a Feast registry, both in the package, into an
    embedded catalog over HTTP. Links models to the features of their training data, evaluates a few
    metadata tests and prints the report. Needs the extra: pip install 'mlcat-ingest[demo]'.

    With --train the models are first trained into a new MLflow store in DIR, which takes half a
    minute. Models that are already in DIR are used again.
    """
    require_extra("demo-train" if train else "demo", "the demo")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{folder} cannot be created: {error.strerror}") from error
    port = _default_port() if port is None else port
    with stop_on_signals(), _catalog(folder / CATALOG_FILE, port) as (server, address):
        if not no_serve:
            output.out(f"Catalog: {address}")
        if train:
            _train(folder)
        else:
            unpack_store(folder)
        _push_tests(address)
        code = _ingest(folder)
        database, recipe = (shlex.quote(str(folder / name)) for name in (CATALOG_FILE, RECIPE_FILE))
        pages = (_NOT_SERVED if no_serve else _SERVED).format(address=address, database=database)
        output.out(_NEXT.format(pages=pages, recipe=recipe))
        if not no_serve:
            output.out(_THEN.format(address=address))
            try:
                server.wait()
            except KeyboardInterrupt:
                click.echo("stopped", err=True)
    return code


def _default_port() -> int:
    """Return `PORT`, or 0 for a free one if that is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT


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
                "the embedded catalog did not start", hint="its own message is above"
            )
        yield server, address[0]
    finally:
        server.terminate()
        server.wait(_STOP_TIMEOUT_S)
        if server.stdout:
            server.stdout.close()


def unpack_store(folder: Path) -> None:
    """Put the MLflow store of the package into `folder`, unless there is one."""
    target = folder / STORE_FILE
    if target.exists():
        return
    # A demo that is stopped here leaves no half of a database.
    part = target.with_suffix(".part")
    with gzip.open(HERE / f"{STORE_FILE}.gz") as packed, part.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    part.replace(target)


def _train(folder: Path) -> None:
    from mlcat_ingest.cli.demo.train import EXPERIMENTS, train_models

    done, store = folder / ".trained", folder / STORE_FILE
    if done.exists() and store.exists():
        click.echo(f"Using the models in {store}", err=True)
        return
    if store.exists():
        raise click.UsageError(
            f"{folder} contains the MLflow store of a demo whose training did not finish: "
            "choose another folder with --dir, or delete this one"
        )
    click.echo(f"Training small scikit-learn models into {store} …", err=True)
    places = {name: f"{number} of {len(EXPERIMENTS)}" for number, name in enumerate(EXPERIMENTS, 1)}
    runs = train_models(
        f"sqlite:///{store.resolve().as_posix()}",
        folder / "artifacts",
        lambda name: click.echo(f"  {places[name]}: {name} …", err=True),
    )
    done.touch()
    click.echo(f"Trained: {runs} MLflow runs", err=True)


def _push_tests(address: str) -> None:
    from mlcat_ingest.client.rest.client import CatalogClient
    from mlcat_ingest.recipe.metadata_test_files import read_tests

    with CatalogClient(address) as client:
        for refused in client.write(read_tests(HERE / "metadata_tests.yml")):
            raise refused


def _ingest(folder: Path) -> int:
    from mlcat_ingest.pipeline.report.render import as_text
    from mlcat_ingest.recipe.model import Recipe
    from mlcat_ingest.workflows.ingest import Pipeline

    registry = folder / REGISTRY_FILE
    if not registry.exists():
        shutil.copyfile(HERE / "feast" / "registry.db", registry)
    recipe = folder / RECIPE_FILE
    if not recipe.exists():
        text = _RECIPE.format(
            path=recipe, registry=REGISTRY_FILE, store=STORE_FILE, catalog=CATALOG_FILE
        )
        recipe.write_text(text, encoding="utf-8")
    with OutputSettings.current().progress() as progress:
        report = Pipeline(Recipe.load(recipe)).run(progress)
    output.out("\n" + as_text(report))
    return report.exit_code
