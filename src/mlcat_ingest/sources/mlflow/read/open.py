"""Opens the reader of a tracking URI, and of a model registry elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import RequestSide, UnansweredRequest, longest_pending_request
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.databricks import DatabricksReader
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_RUNS,
    MlflowConnection,
    MlflowObject,
    Reader,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.sources.mlflow.values.uris import (
    is_databricks,
    is_http,
    is_readable_database,
    normalise_uri,
)


class _BothConnections(RequestSide):
    """The connections to a tracking server and a registry elsewhere; the first has the clock."""

    def __init__(self, tracking: MlflowConnection, registry: MlflowConnection) -> None:
        self._both = (tracking, registry)
        self.clock_ms = tracking.clock_ms

    def pending_request(self) -> UnansweredRequest | None:
        return longest_pending_request(*self._both)

    def end_waits(self) -> None:
        for connection in self._both:
            connection.end_waits()

    def requests_made(self) -> int:
        return sum(connection.requests_made() for connection in self._both)

    def close(self) -> None:
        for connection in self._both:
            connection.close()


class SplitReader:
    """A `Reader` of experiments and runs from one place, of the model registry from another.

    The tracking server identifies what is read.
    """

    def __init__(
        self, tracking: Reader, registry: Reader, allows: Callable[[str], bool] = bool
    ) -> None:
        """Own both readers, of the workspaces whose name the recipe `allows`."""
        self._tracking = tracking
        self._registry = registry
        self._allows = allows
        self.connection = _BothConnections(tracking.connection, registry.connection)
        self.workspace = tracking.workspace
        self.server_id = tracking.server_id
        self.experiments = tracking.experiments
        self.logged_models = tracking.logged_models
        self.parents = tracking.parents
        self.text_of = tracking.text_of
        self.registered_models = registry.registered_models
        self.model_versions = registry.model_versions

    def workspaces(self) -> Sequence[Self]:
        """Return a reader of each workspace of the tracking server.

        Raises:
            ProtocolMismatchError: the registry lacks one of them.
        """
        registries = {here.workspace: here for here in self._registry.workspaces()}
        readers = []
        for tracking in self._tracking.workspaces():
            name = tracking.workspace
            if self._allows(name) and name not in registries:
                raise ProtocolMismatchError(
                    f"the model registry has no workspace {name!r}, the tracking server has",
                    hint="create it in the registry, or deny it in `workspaces` of the source",
                )
            if name in registries:
                readers.append(type(self)(tracking, registries[name]))
        return readers

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in pages, in the order of their start."""
        # The tracking server does not know which runs the registry's versions were made from.
        return self._tracking.runs(experiment_ids, only=replace(only, select="all"))

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the server for objects of this kind reports that it does not exist."""
        is_registered = target.kind in {"registered", "version"}
        return (self._registry if is_registered else self._tracking).is_gone(target)

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found about the tracking server, then the registry."""
        yield from self._tracking.check()
        try:
            models = sum(len(page) for page in self._registry.registered_models())
        except MlcatError as error:
            yield Finding("MLflow registry", "failed", error.message, error.hint)
            return
        yield Finding("MLflow registry", "ok", plural(models, "registered model"))


def open_reader(config: MlflowConfig) -> Reader:
    """Return the reader of a tracking URI: REST, SQL for a database, else MlflowClient.

    A model registry elsewhere gets a reader of its own. If one of the two has to be read through
    MlflowClient, both are.

    Raises:
        MissingExtraError: MlflowClient is needed, or a driver, and it is not installed.
        RecipeError, RetryableError, FatalError: a database cannot be opened; see `open_database`.

    Cost: a database is connected to, to see the revision of its schema.
    """
    reader = None if config.reader == "client" else _direct(config)
    if reader is not None:
        return reader
    from mlcat_ingest.sources.mlflow.read.client import ClientReader

    return ClientReader(config)


def _direct(config: MlflowConfig) -> Reader | None:
    """Return a reader that needs no MLflow, None where there is none."""
    uri, registry_uri = config.tracking_uri, config.registry_uri
    if (
        registry_uri is None
        or (config.over_http and is_databricks(uri) == is_databricks(registry_uri))
        or normalise_uri(registry_uri) == normalise_uri(uri)
    ):
        return _direct_of_one(config)
    tracking = _direct_of_one(config.of_one(uri))
    if tracking is None:
        return None
    registry = _direct_of_one(config.of_one(registry_uri))
    if registry is None:
        tracking.connection.close()
        return None

    return SplitReader(tracking, registry, config.workspaces.allows)


def _direct_of_one(config: MlflowConfig) -> Reader | None:
    if is_databricks(config.tracking_uri):
        return DatabricksReader(config)
    if is_http(config.tracking_uri):
        return RestReader(config)
    if is_readable_database(config.tracking_uri):
        from mlcat_ingest.sources.mlflow.read.database.reader import open_database

        return open_database(config)
    return None
