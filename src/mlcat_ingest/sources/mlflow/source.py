"""The MLflow source: every workspace of a server, read, joined and mapped."""

import logging
import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final
from urllib.parse import quote

from mlcat_ingest.awaiting import Awaited, longest_awaited
from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.findings import Finding
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE, Naming, Templates
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.base import (
    Forgetful,
    Memory,
    Missing,
    PartState,
    Trace,
    Unit,
    Unlisted,
)
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.mlflow.changes import Changes, Since
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.joined import (
    JoinedRecord,
    JoinedRun,
    MappingOptions,
    Scope,
)
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.missing import missing
from mlcat_ingest.sources.mlflow.named import NamedReading
from mlcat_ingest.sources.mlflow.opening import open_reader
from mlcat_ingest.sources.mlflow.reader import Reader
from mlcat_ingest.sources.mlflow.reading import WorkspaceReading
from mlcat_ingest.sources.mlflow.select import Selection
from mlcat_ingest.sources.mlflow.traces import part_of, trace_of
from mlcat_ingest.sources.mlflow.ui_links import ui_links
from mlcat_ingest.sources.mlflow.units import ids_in, refuse_to_split, rest_of, units_of
from mlcat_ingest.sources.owners import Owners

log = logging.getLogger(__name__)

PLATFORM: Final = "mlflow"

_SINCE: Final = "since_ms"
"""What a checkpoint holds: when the pass began, by the server's clock."""


class MlflowSource:
    """Reads an MLflow server or store; see `sources.base.Source`."""

    def __init__(self, config: MlflowConfig, *, reader: Reader | None = None) -> None:
        """Keep the configuration; nothing is contacted. `reader` is opened by it if not given.

        Raises:
            RecipeError: the naming templates, or instance and workspace, cannot make names, or the
                file of owners cannot be used.
        """
        self._config = config
        self._selection = Selection(config)
        self._reader = reader
        self._owners = Owners(config.owners)
        self._datasets = Datasets(config.datasets)
        self._links = config.features.options()
        self._memory: Memory = Forgetful()
        self._parts: dict[str, PartState] = {}
        self._places: dict[str, tuple[Reader, Scope]] = {}
        self._units: Collection[str] | None = None
        self._is_rest = False
        self._named: Sequence[str] | None = None
        self.found_runs: set[str] = set()
        self._naming(DEFAULT_WORKSPACE)

    def units(self) -> Iterator[Unit]:
        """Yield every experiment that has runs; see `Splits`."""
        refuse_to_split(self._config)
        reader = self._open()
        for name in filter(self._config.workspaces.allows, reader.workspaces()):
            yield from units_of(self._in(reader, name), self._selection)

    def take_units(self, keys: Collection[str]) -> None:
        """Let `read` yield the runs of these experiments; see `Splits`."""
        self._units = keys

    def take_rest(self) -> None:
        """Let `map` tell groups, versions, and what is gone; see `Splits`."""
        self._is_rest = True

    def only_runs(self, run_ids: Sequence[str]) -> None:
        """Let the next `read` be of these runs alone; see `ReadsNamedRuns`."""
        self._named = run_ids

    def read(self, memory: Memory) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the records of each workspace in turn, groups before what belongs to them.

        Connections are released with the last page, or when the caller lets go.

        Cost: one request a page of each listing; see `WorkspaceReading` and `Changes`.
        """
        self._memory = memory
        with closing(self._open()) as reader:
            yield from self._read(reader)

    def _read(self, reader: Reader) -> Iterator[Sequence[JoinedRecord]]:
        limit, runs = self._config.limit, 0
        for name in reader.workspaces():
            if not self._config.workspaces.allows(name):
                continue
            if limit is not None and runs >= limit:
                return
            here = self._in(reader, name)
            scope = self._scope(reader, name)
            self._places[scope.source_key] = (here, scope)
            runs += yield from self._read_workspace(here, scope, runs)

    def _in(self, reader: Reader, workspace: str) -> Reader:
        return reader if workspace == reader.workspace else reader.in_workspace(workspace)

    def _read_workspace(
        self, reader: Reader, scope: Scope, already_read: int
    ) -> Generator[Sequence[JoinedRecord], None, int]:
        """Yield the records of one workspace; return how many runs were listed."""
        if self._units is not None:
            only = ids_in(self._units, reader.workspace)
            if only:
                reading = WorkspaceReading(reader, scope, self._selection, only=only)
                yield from reading.pages()
            return 0
        part = self._memory.part(part_of(self._config, scope))
        if self._named is not None:
            yield from self._read_named(reader, scope, self._named)
            return 0
        self._parts[scope.source_key] = part
        checkpoint = {_SINCE: reader.clock_ms()}
        since = self._since(part)
        if since is not None:
            changes = Changes(reader, part, self._selection.listing(), since)
            try:
                yield from WorkspaceReading(reader, scope, self._selection, changes).pages()
            except ProtocolMismatchError as error:
                log.warning("what changed cannot be listed, so everything is read: %s", error)
            else:
                part.finish(checkpoint, complete=False)
                return 0
        reading = WorkspaceReading(reader, scope, self._selection)
        yield from reading.pages(already_read=already_read)
        if self._config.limit is None:
            part.finish(checkpoint, complete=True)
        return reading.runs_read

    def _read_named(
        self, reader: Reader, scope: Scope, run_ids: Sequence[str]
    ) -> Iterator[Sequence[JoinedRecord]]:
        for page in NamedReading(reader, scope, self._selection, run_ids).pages():
            self.found_runs.update(one.run.run_id for one in page if isinstance(one, JoinedRun))
            yield page

    def _since(self, part: PartState) -> Since | None:
        """Return from when on changes are enough, None where everything has to be read."""
        last_ms = None if part.checkpoint is None else part.checkpoint.get(_SINCE)
        if last_ms is None or not self._selection.reads_changes:
            return None
        return Since(last_ms, 1000 * self._config.incremental.overlap.seconds)

    def trace(self, record: JoinedRecord) -> Trace | None:
        """Return what to remember of `record`; pure."""
        part = self._parts.get(record.scope.source_key)
        return None if part is None else trace_of(record, part)

    def map(self, record: JoinedRecord) -> Iterable[Entity]:
        """Return the entities that `record` says something about; pure.

        Raises:
            RecordError, InvalidUrnError: the record cannot be mapped.
        """
        entities = map_record(record)
        return rest_of(entities) if self._is_rest and isinstance(record, JoinedRun) else entities

    def missing(self, part: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that MLflow has no more; see `TellsMissing`."""
        place = self._places.get(part)
        return () if place is None else missing(*place, unlisted)

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return longest_awaited(self._reader)

    def requests_made(self) -> int:
        """Return how many requests were sent to the server so far."""
        return 0 if self._reader is None else self._reader.requests_made()

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        yield from self._open().check()

    def close(self) -> None:
        """Release connections; safe to call twice."""
        if self._reader is not None:
            self._reader.close()

    def _open(self) -> Reader:
        if self._reader is None:
            self._reader = open_reader(self._config)
        return self._reader

    def _naming(self, workspace: str) -> Naming:
        config = self._config
        try:
            return Naming(
                PLATFORM,
                config.env,
                config.instance,
                workspace,
                Templates(**config.naming.model_dump()),
                shared=config.compat == "datahub",
            )
        except ValueError as error:
            raise RecipeError(str(error)) from error

    def _scope(self, reader: Reader, workspace: str) -> Scope:
        config = self._config
        ui_url = config.ui_url
        if ui_url is None and config.tracking_uri.startswith("databricks"):
            ui_url = os.environ.get("DATABRICKS_HOST") or None
        named = None if workspace == DEFAULT_WORKSPACE else workspace
        return Scope(
            naming=self._naming(workspace),
            links=ui_links(config.tracking_uri, ui_url=ui_url, workspace=named),
            # The key is one of a comma-joined set, so a name may bring no comma of its own.
            source_key=f"{PLATFORM}:{reader.server_id()}:{quote(workspace, safe='')}",
            owners=self._owners,
            datasets=self._datasets,
            options=MappingOptions(
                system_metrics=config.system_metrics,
                alias_tags=config.alias_tags,
                links=self._links,
            ),
        )
