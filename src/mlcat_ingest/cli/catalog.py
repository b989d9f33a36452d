"""`mlcat-ingest catalog`: serve and mend the embedded catalog; check and push metadata tests."""

from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import (
    Command,
    OutputSettings,
    ReadSecret,
    connect,
    listening_options,
    secret_option,
    service_options,
)
from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.core.resources import Pace
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.report.progress import PLAIN_INTERVAL_S, log
from mlcat_ingest.pipeline.report.report import EXIT_OK, EXIT_PARTIAL
from mlcat_ingest.recipe.metadata_test_files import read_test_files, read_tests

if TYPE_CHECKING:
    from mlcat_ingest.catalog.server.lock import Running


@click.group()
def command() -> None:
    """Serve and repair the embedded catalog; check and push metadata tests."""


_db_option = click.option(
    "--db",
    default="mlcat-catalog.db",
    show_default=True,
    metavar="URL",
    help="Database file: a path, or sqlite:///<path>.",
)


@command.command(cls=Command, examples=["catalog serve --db catalog.db --port 8080"])
@_db_option
@listening_options(8080)
@secret_option(
    "token",
    "MLCAT_CATALOG_TOKEN",
    "Token for reading and writing; required if the catalog listens beyond loopback. Other users "
    "of this machine can see it in the process list: prefer MLCAT_CATALOG_TOKEN or a file.",
    "File with that token.",
)
@secret_option(
    "read-token",
    "MLCAT_CATALOG_READ_TOKEN",
    "A second token, for reading only; prefer MLCAT_CATALOG_READ_TOKEN or a file.",
    "File with that token.",
)
def serve(db: str, host: str, port: int, token: ReadSecret, read_token: ReadSecret) -> int:
    """Serve the embedded catalog until Ctrl-C.

    It listens on loopback by default. Any other address needs a token, and its pages a sign-in.
    """
    from mlcat_ingest.catalog.server.serve import serve as serve_catalog

    def announce(running: "Running") -> None:
        output.out(f"the catalog is at {running.url} (Ctrl-C stops it)")

    try:
        serve_catalog(db, host, port, token=token(), read_token=read_token(), ready=announce)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    return EXIT_OK


@command.command(cls=Command, examples=["catalog reindex --db catalog.db"])
@_db_option
def reindex(db: str) -> int:
    """Rebuild the search index and the edges of a catalog from its stored aspects.

    A catalog does this itself after an upgrade that changes the index. While a catalog is served,
    its `restoreIndices` operation does it instead.
    """
    require_extra("catalog", "the embedded catalog")
    from mlcat_ingest.catalog.server.lock import ServerLock
    from mlcat_ingest.catalog.store.reindex import rebuild
    from mlcat_ingest.catalog.store.store import Store
    from mlcat_ingest.sql.engine import database_url

    path = Path(database_url(db).database or "")
    if not path.is_file() or not path.stat().st_size:
        raise RecipeError(f"no catalog at {path}")
    # Somebody who serves it has the lock.
    with ServerLock.acquire(db), closing(Store.open(db)) as store:
        pace = Pace(PLAIN_INTERVAL_S, after_s=PLAIN_INTERVAL_S)
        entities = store.change(rebuild, partial(_log_indexed, pace))
    output.out(f"indexed {plural(entities, 'entity', 'entities')}")
    return EXIT_OK


def _log_indexed(pace: Pace, entities: int) -> None:
    """Log how many entities are indexed, at the pace of progress lines."""
    if pace.allows():
        log.info("%s indexed", plural(entities, "entity", "entities"))


@command.group()
def tests() -> None:
    """Check files of metadata tests, and push them to a catalog service."""


@tests.command(cls=Command, examples=["catalog tests check recipes/tests/*.yml"])
@click.argument(
    "files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE…",
    nargs=-1,
    required=True,
)
def check(files: tuple[Path, ...]) -> int:
    """Validate the metadata tests in each FILE, YAML or JSON, and list every problem.

    Nothing is contacted. A test has `id`, `name`, `category`, `definition` and an optional
    `description`; two files must not contain the same test.
    """
    require_extra("tests", "checking metadata tests")
    counts = Counter(test.file for test in read_test_files(files).values())
    for file, count in counts.items():
        output.out(f"{file}: {plural(count, 'metadata test')}")
    return EXIT_OK


@tests.command(
    cls=Command, examples=["catalog tests push tests.yml --server http://127.0.0.1:8080"]
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@service_options
def push(file: Path, server: str | None, token: str | None) -> int:
    """Write the metadata tests in FILE, YAML or JSON, to the catalog service.

    FILE contains one test or a list of tests: `id`, `name`, `category`, `definition` and an
    optional `description` each. All tests are validated before the first is written.
    """
    require_extra("tests", "checking metadata tests")
    proposals = read_tests(file)
    with connect(server, token) as client:
        refused = client.write(proposals)
    reasons = {refusal.urn: str(refusal) for refusal in refused}
    for proposal in proposals:
        if proposal.entity_urn in reasons:
            OutputSettings.current().print_error(reasons[proposal.entity_urn])
        else:
            output.out(f"wrote {proposal.entity_urn}: {proposal.aspect['name']}")
    return EXIT_PARTIAL if refused else EXIT_OK
