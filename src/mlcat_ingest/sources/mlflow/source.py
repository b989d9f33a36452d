"""The MLflow source: every workspace of a server, read, joined and mapped."""

import logging
import os
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import ClassVar, Final
from urllib.parse import quote, unquote

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE, Naming, Templates
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import dataset, entity_type_of
from mlcat_ingest.recipe.fields import content_of
from mlcat_ingest.recipe.secrets import comparable
from mlcat_ingest.sources.base import (
    Capability,
    Changes,
    EntityTags,
    Everything,
    Finished,
    Missing,
    Page,
    Partition,
    PartitionState,
    ReadRequest,
    Remainder,
    Runs,
    Shard,
    Shards,
    Source,
    Unlisted,
)
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.checks import OMITS, WORKSPACES
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject, Reader
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.read.signin import find_account
from mlcat_ingest.sources.mlflow.select.assets import AssetUsers, join_agents, missing_assets
from mlcat_ingest.sources.mlflow.select.changes import ChangedRuns, KnownRuns
from mlcat_ingest.sources.mlflow.select.joins import ParentRuns
from mlcat_ingest.sources.mlflow.select.missing import find_missing, object_of
from mlcat_ingest.sources.mlflow.select.scopes import EveryRun, NamedRuns
from mlcat_ingest.sources.mlflow.select.selection import (
    check_divisible,
    experiment_ids_of,
    listed_runs,
    reads_changes,
    shards_of,
)
from mlcat_ingest.sources.mlflow.select.workspace import WorkspaceReading
from mlcat_ingest.sources.mlflow.values.assets import (
    AGENT,
    ENTITY_TYPES,
    KINDS,
    PROMPT,
)
from mlcat_ingest.sources.mlflow.values.joined import (
    COLUMN,
    DATASET,
    EXPERIMENT,
    PROCESS,
    REGISTERED,
    RUN,
    SIGNATURE,
    VERSION,
    JoinedDataset,
    JoinedRecord,
    MappingOptions,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.uris import (
    is_databricks,
    is_http,
    is_readable_database,
    normalise_uri,
    registry_of,
    ui_links,
)
from mlcat_ingest.sources.options import Owners


def open_reader(config: MlflowConfig) -> Reader:
    """Return the reader of a tracking URI: REST, SQL for a database, else MlflowClient.

    MlflowClient also reads a model registry elsewhere, but for a second server, which is read over
    REST.

    Raises:
        MissingExtraError: MlflowClient is needed, or a driver, and it is not installed.
        RecipeError, RetryableError, FatalError: a database cannot be opened, see `open_database`;
            or the recipe insists on a reader that cannot read a registry elsewhere.

    Cost: a database is connected to, to see the columns of its tables.
    """
    if config.reader != "client" and _reads_registry(config):
        if is_databricks(config.tracking_uri):
            from mlcat_ingest.sources.mlflow.read.databricks import DatabricksReader

            return DatabricksReader(config)
        if is_http(config.tracking_uri):
            return RestReader(config)
        if is_readable_database(config.tracking_uri):
            from mlcat_ingest.sources.mlflow.read.database.reader import open_database

            return open_database(config)
    elif config.reader not in {"auto", "client"}:
        raise RecipeError(
            f"`reader: {config.reader}` cannot read a model registry elsewhere",
            hint="delete `reader` or `registry_uri`",
        )
    from mlcat_ingest.sources.mlflow.read.client import ClientReader

    return ClientReader(config)


def _reads_registry(config: MlflowConfig) -> bool:
    """Return whether the reader of the tracking URI reads the model registry, too."""
    uri, registry_uri = config.tracking_uri, config.registry_uri
    return (
        registry_uri is None
        or (config.over_http and is_databricks(uri) == is_databricks(registry_uri))
        or normalise_uri(registry_uri) == normalise_uri(uri)
    )


log = logging.getLogger(__name__)

PLATFORM: Final = "mlflow"

_ASSETS_A_PAGE: Final = 100


class MlflowSource(Source[JoinedRecord]):
    """Reads an MLflow server or store."""

    capabilities: ClassVar = frozenset({Capability.MISSING, Capability.SHARDS, Capability.RUNS})

    def __init__(self, config: MlflowConfig, *, reader: Reader | None = None) -> None:
        """Keep the configuration; nothing is contacted. `reader` is opened by it if not given.

        Raises:
            RecipeError: the naming templates, or instance and workspace, cannot make names, the
                file of owners cannot be used, or there are no credentials for Databricks.
        """
        self._config = config
        self.address = config.public_uri
        self._reader = reader
        self._owners = Owners(config.owners)
        self._datasets = Datasets(config.datasets)
        self._links = config.features.options()
        self._places: dict[str, tuple[Reader, WorkspaceScope]] = {}
        self._tables_listed: set[str] = set()
        self._gone: set[str] = set()
        self._taken: dict[str, str] = {}
        self._nothing_listed: list[str] = []
        self._listed: Counter[str] = Counter()
        self._assets: dict[str, dict[str, Mapping[str, Sequence[str]]]] = {}
        self._naming(DEFAULT_WORKSPACE)
        self._databricks = self._databricks_address()
        self.can_set_tags = config.over_http and config.reader != "client" and not self._databricks

    def shards(self) -> Iterator[Shard]:
        """Yield every experiment that has runs, as a shard."""
        check_divisible(self._config)
        for reader in self._readers():
            yield from shards_of(reader, self._config)

    def read(self, request: ReadRequest) -> Iterator[Page[JoinedRecord] | Finished]:
        """Yield the records of each workspace in turn, groups before what belongs to them.

        Connections are released with the last page, or when the caller stops.

        Cost: one request a page of each listing; see `WorkspaceReading` and `ChangedRuns`.
        """
        limit, runs = self._config.limit, 0
        self._nothing_listed, self._listed = [], Counter()
        self._taken.clear()
        self._assets.clear()
        with closing(self._open().connection):
            readers = self._readers()
            for reader in readers:
                if limit is not None and runs >= limit:
                    break
                scope = self._scope(reader)
                self._places[scope.source_key] = (reader, scope)
                runs += yield from self._read_workspace(reader, scope, request, runs)
            if isinstance(request.scope, Changes | Everything | Remainder):
                yield from self._gone_workspaces(request)
                if notes := list(self._notes(readers)):
                    yield Finished(notes=notes)

    def keys(self) -> Sequence[str]:
        """Return the key of each workspace that the recipe asks for."""
        with closing(self._open().connection):
            return [self._scope(reader).source_key for reader in self._readers()]

    def _readers(self) -> list[Reader]:
        """Return a reader of each workspace that the recipe asks for."""
        allows = self._config.workspaces.allows
        return [reader for reader in self._open().workspaces() if allows(reader.workspace)]

    def _gone_workspaces(self, request: ReadRequest) -> Iterator[Finished]:
        """Yield the end of each workspace that an earlier run read and that does not exist now.

        Cost: one request for each.
        """
        default = self._open()
        start = f"{PLATFORM}:{default.server_id()}:"
        for key in request.state.unread_keys():
            name = unquote(key.removeprefix(start))
            is_wanted = key.startswith(start) and self._config.workspaces.allows(name)
            if is_wanted and default.is_gone(MlflowObject("workspace", name)):
                scope = self._scope_of(name, key)
                self._gone.add(key)
                gone = f"workspace {name} is deleted: its entities are removed, within the limits"
                yield Finished(
                    request.state.partition(partition_of(self._config, scope)),
                    {},
                    complete=True,
                    notes=[Note("workspace_gone", gone)],
                )

    def _notes(self, readers: Sequence[Reader]) -> Iterator[Note]:
        """Yield notes on the server, and what it may hold and not list.

        Feature tables then count as unlisted.
        """
        connection = self._open().connection
        yield from connection.notes()
        for finding in connection.check_user():
            if finding.outcome == "warning":
                self._tables_listed.clear()
                text = f"{finding.detail} ({finding.hint})"
                unread = finding.what == WORKSPACES
                yield Note("workspaces_unread", text) if unread else Note("not_administrator", text)
        if not readers:
            listed = len(self._open().workspaces())
            text = f"none of {plural(listed, 'workspace')} matches `workspaces`"
            yield Note(
                "nothing_listed", text if listed else f"MLflow listed no workspace ({OMITS})"
            )
        if (listed := self._listed["experiments"]) and not self._listed["wanted"]:
            text = f"none of {plural(listed, 'experiment')} matches `experiments`"
            yield Note("nothing_listed", text)
        for workspace in self._nothing_listed:
            where = f" in workspace {workspace}" if len(readers) > 1 else ""
            yield Note("nothing_listed", f"MLflow listed no experiment{where} ({OMITS})")

    def _read_workspace(
        self, reader: Reader, scope: WorkspaceScope, request: ReadRequest, already_read: int
    ) -> Generator[Page[JoinedRecord] | Finished, None, int]:
        """Yield the records of one workspace; return how many runs were listed."""
        reader.refusals.restart()
        only = listed_runs(self._config, already_read=already_read)
        reading = partial(WorkspaceReading, reader, scope, self._config)
        if isinstance(request.scope, Shards):
            ids = experiment_ids_of(request.scope.keys, reader.workspace)
            shards = reading(EveryRun(reader, only, shard=ids), ParentRuns(PartitionState()))
            yield from self._pages(reader, shards) if ids else ()
            return 0
        partition = request.state.partition(partition_of(self._config, scope))
        parents = ParentRuns(partition)
        if isinstance(request.scope, Runs):
            named = NamedRuns(reader, only, request.scope)
            of_names = reading(named, parents)
            users = AssetUsers(partition.fingerprints(PROMPT))
            yield from self._pages(reader, of_names, users=users)
            wanted = frozenset(request.scope.models)
            yield from self._asset_pages(reader, scope, partition, users, wanted)
            yield Finished(partition, found_ids=named.found_ids, groups=of_names.groups)
            return 0
        before_ms = reader.connection.clock_ms() - 1000 * self._config.incremental.overlap.seconds
        can_read_changes = reads_changes(self._config)
        last = can_read_changes and isinstance(request.scope, Changes)
        known = KnownRuns(reader, before_ms, partition.checkpoint if last else None)
        if known.last_ms is not None:
            changes = reading(ChangedRuns(reader, only, known, partition), parents)
            try:
                users = AssetUsers(partition.fingerprints(PROMPT))
                yield from self._pages(reader, changes, partition, users)
            except ProtocolMismatchError as error:
                log.warning("cannot list changes; reading everything: %s", error)
            else:
                yield from self._asset_pages(reader, scope, partition, users)
                yield Finished(partition, changes.checkpoint(known), groups=changes.groups)
                return 0
            known, parents = KnownRuns(reader, before_ms), ParentRuns(partition)
        runs = EveryRun(
            reader,
            only,
            list_runs=known.runs if can_read_changes else None,
            listed_only=isinstance(request.scope, Remainder),
        )
        everything = reading(runs, parents)
        users = AssetUsers({})
        yield from self._pages(
            reader, everything, partition, users, reads_all=self._config.limit is None
        )
        yield from self._asset_pages(reader, scope, partition, users)
        if self._config.limit is None:
            if everything.lists_every_table and not reader.refusals.count:
                self._tables_listed.add(scope.source_key)
            yield Finished(partition, everything.checkpoint(known), complete=True)
        return everything.runs_read

    def _pages(
        self,
        reader: Reader,
        reading: WorkspaceReading,
        partition: PartitionState | None = None,
        users: AssetUsers | None = None,
        *,
        reads_all: bool = False,
    ) -> Iterator[Page[JoinedRecord]]:
        """Yield the pages of a reading, and the records that cannot be read behind others.

        Only where it `reads_all` runs are those in the trash told of a dataset: another may not see
        the run that describes it instead.
        """
        datasets: dict[str, JoinedDataset] = {}
        trashed: dict[str, tuple[str, ...]] = {}
        for records in reading.pages():
            if users is not None and self._config.include:
                users.add(records)
            yield Page([*records, *reader.refusals.take()], partition)
            if self._config.lineage.datasets == "create":
                from mlcat_ingest.sources.mlflow.mapping.datasets import take_datasets

                take_datasets(records, datasets, trashed)
        if datasets:
            for urn in datasets.keys() & trashed if reads_all else ():
                datasets[urn] = replace(datasets[urn], trashed=trashed[urn])
            yield Page([*datasets.values()], partition)
        if refused := reader.refusals.take():
            yield Page(refused, partition)
        if not reading.experiments_listed:
            self._nothing_listed.append(reader.workspace)
        self._listed.update(experiments=reading.experiments_listed, wanted=reading.experiments_read)

    def _asset_pages(
        self,
        reader: Reader,
        scope: WorkspaceScope,
        partition: PartitionState,
        users: AssetUsers,
        named: Collection[str] | None = None,
    ) -> Iterator[Page[JoinedRecord] | Finished]:
        """Yield the AI assets that the recipe includes; of those `named`, only prompts."""
        listed = self._assets.setdefault(scope.source_key, {})
        unread: set[str] = set()
        kinds = [KINDS[name] for name in self._config.include if KINDS[name] != AGENT]
        for kind in kinds if named is None else [one for one in kinds if one == PROMPT and named]:
            assets = reader.assets(kind)
            refused = reader.refusals.take()
            if assets is None:
                yield Finished(notes=[Note("assets_not_listed", f"this MLflow lists no {kind}s")])
            elif named is None:
                listed[kind] = {one.name: [t.name for t in one.newest.tools] for one in assets}
                unread.update(one.kind for one in refused)
            wanted = (one for one in assets or () if named is None or one.name in named)
            records: list[JoinedRecord] = [*(users.join(scope, one) for one in wanted), *refused]
            for some in chunks(records, _ASSETS_A_PAGE):
                yield Page(some, partition)
        listed[AGENT] = dict.fromkeys(users.agents, ())
        if "agents" in self._config.include:
            unread.update(kind for kind in kinds if kind not in listed)
            agents = join_agents(reader, users.agents.values(), listed, unread)
            yield from (Page(some, partition) for some in chunks(agents, _ASSETS_A_PAGE))

    def map(self, record: JoinedRecord) -> Iterable[Entity]:
        """Return the entities of `record`; pure.

        Raises:
            RecordError, InvalidUrnError: the record cannot be mapped.
        """
        # Where nothing has changed, nothing is mapped.
        from mlcat_ingest.sources.mlflow.mapping import map_record

        return map_record(record)

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that MLflow has no more; all of a workspace that is gone."""
        if partition in self._gone:
            return [Missing(entity.urn, lambda: True) for entity in unlisted]
        place = self._places.get(partition)
        if place is None:
            return ()
        if unlisted and entity_type_of(unlisted[0].urn) in ENTITY_TYPES:
            included = {KINDS[name] for name in self._config.include}
            return missing_assets(*place, unlisted, included, self._assets.get(partition, {}))
        return find_missing(*place, unlisted, tables_listed=partition in self._tables_listed)

    def set_tags(self, entities: Sequence[EntityTags]) -> Iterator[tuple[str, str | None]]:
        """Set tags of the runs and versions of `entities`.

        Cost: a read of each object, and a write; one a tag for a version.
        """
        for entity in entities:
            custom = entity.properties.get("customProperties") or {}
            keys = str(custom.get(SOURCE_KEY)).split(",")
            for reader, scope in filter(None, map(self._places.get, keys)):
                target = object_of(scope, entity.urn, entity.properties)
                if isinstance(reader, RestReader) and target and target.kind in {"run", "version"}:
                    yield entity.urn, reader.set_tags(target, entity.tags)

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        yield from self._open().check()

    def close(self) -> None:
        """Release connections; safe to call twice."""
        if self._reader is not None:
            self._reader.connection.close()

    def _open(self) -> Reader:
        if self._reader is None:
            self._reader = open_reader(self._config)
        self.traffic = self._reader.connection
        return self._reader

    def _databricks_address(self) -> str | None:
        """Return the address of the workspace that the tracking URI leads to, if it does."""
        config = self._config
        if config.reader == "client":
            return os.environ.get("DATABRICKS_HOST") if is_databricks(config.tracking_uri) else None
        signed_in = config.token is not None
        uris = (config.tracking_uri, registry_of(config.tracking_uri, config.registry_uri))
        account, _ = [find_account(uri, os.environ, signed_in=signed_in) for uri in uris]
        return None if account is None else account.address

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

    def _scope(self, reader: Reader) -> WorkspaceScope:
        # The key is one of a comma-joined set, so a name may bring no comma of its own.
        workspace = reader.workspace
        key = f"{PLATFORM}:{reader.server_id()}:{quote(workspace, safe='')}"
        return self._scope_of(workspace, key)

    def _scope_of(self, workspace: str, source_key: str) -> WorkspaceScope:
        config = self._config
        named = None if workspace == DEFAULT_WORKSPACE else workspace
        return WorkspaceScope(
            naming=self._naming(workspace),
            links=ui_links(
                config.tracking_uri, ui_url=config.ui_url or self._databricks, workspace=named
            ),
            source_key=source_key,
            taken=self._taken,
            owners=self._owners,
            datasets=self._datasets,
            options=MappingOptions(
                system_metrics=config.system_metrics,
                alias_tags=config.alias_tags,
                links=self._links,
                process_instances=config.lineage.process_instances,
                datasets=config.lineage.datasets,
            ),
        )


def partition_of(config: MlflowConfig, scope: WorkspaceScope) -> Partition:
    """Return one workspace as it is remembered."""
    naming, links = scope.naming, scope.options.links
    identity = {
        RUN: naming.model("0").urn,
        EXPERIMENT: naming.group("0").urn,
        REGISTERED: naming.registered_group("0").urn,
        VERSION: naming.version("0", "0").urn,
    }
    if scope.options.process_instances:
        identity[PROCESS] = naming.process("0")
    if scope.options.datasets == "create":
        identity[DATASET] = dataset("file", "0", naming.env)
    if links is not None and links.from_signature:
        table = naming.feature_table(None, "0")
        identity |= {SIGNATURE: table.urn, COLUMN: naming.feature(table, "0").urn}
    for entity_type, kind in ENTITY_TYPES.items():
        if kind in {KINDS[name] for name in config.include}:
            identity[entity_type] = naming.asset(entity_type, "0").urn
    # Links follow from the environment, too: on Databricks from its own configuration.
    settings = [
        comparable(content_of(config)),
        config.owners.map_digest(),
        asdict(scope.links),
    ]
    server_id, _, workspace = scope.source_key.removeprefix(f"{PLATFORM}:").rpartition(":")
    named = "" if workspace == DEFAULT_WORKSPACE else f", workspace {unquote(workspace)}"
    return Partition(
        key=scope.source_key,
        instance=naming.instance or "",
        identity=identity,
        settings=content_hash(settings),
        label=f"MLflow at {redact_url(config.tracking_uri)}{named} (server id {server_id})",
    )
