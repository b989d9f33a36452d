"""Opens the reader of a tracking URI, and of a model registry elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import UnansweredRequest, longest_pending_request
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.databricks_reader import DatabricksReader
from mlcat_ingest.sources.mlflow.read.reader import ALL_RUNS, MlflowObject, Reader, RunFilter
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.sources.mlflow.values.uris import (
    is_databricks,
    is_http,
    is_readable_database,
    normalise_uri,
)


class SplitReader:
    """A `Reader` of experiments and runs from one place, of the model registry from another.

    The tracking server identifies what is read.
    """

    def __init__(self, tracking: Reader, registry: Reader) -> None:
        """Own both readers."""
        self._tracking = tracking
        self._registry = registry
        self.workspace = tracking.workspace
        self.server_id = tracking.server_id
        self.workspaces = tracking.workspaces
        self.experiments = tracking.experiments
        self.logged_models = tracking.logged_models
        self.has_run = tracking.has_run
        self.parents = tracking.parents
        self.text_of = tracking.text_of
        self.clock_ms = tracking.clock_ms
        self.registered_models = registry.registered_models
        self.model_versions = registry.model_versions

    def in_workspace(self, name: str) -> Self:
        """Return a reader of another workspace of both."""
        return type(self)(self._tracking.in_workspace(name), self._registry.in_workspace(name))

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in pages, in the order of their start."""
        # The tracking server does not know which runs the registry's versions were made from.
        return self._tracking.runs(experiment_ids, only=replace(only, select="all"))

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the server that has objects of its kind says that there is none."""
        is_registered = target.kind in {"registered", "version"}
        return (self._registry if is_registered else self._tracking).is_gone(target)

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request to either that waits longest for its answer."""
        return longest_pending_request(self._tracking, self._registry)

    def end_waits(self) -> None:
        """End every pause between attempts."""
        self._tracking.end_waits()
        self._registry.end_waits()

    def requests_made(self) -> int:
        """Return how many requests were sent to both."""
        return self._tracking.requests_made() + self._registry.requests_made()

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found about the tracking server, then the registry."""
        yield from self._tracking.check()
        try:
            models = sum(len(page) for page in self._registry.registered_models())
        except MlcatError as error:
            yield Finding("MLflow registry", "failed", error.message, error.hint)
            return
        yield Finding("MLflow registry", "ok", plural(models, "registered model"))

    def close(self) -> None:
        """Release connections; safe to call twice."""
        self._tracking.close()
        self._registry.close()


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
        tracking.close()
        return None

    return SplitReader(tracking, registry)


def _direct_of_one(config: MlflowConfig) -> Reader | None:
    if is_databricks(config.tracking_uri):
        return DatabricksReader(config)
    if is_http(config.tracking_uri):
        return RestReader(config)
    if is_readable_database(config.tracking_uri):
        from mlcat_ingest.sources.mlflow.read.database.reader import open_database

        return open_database(config)
    return None
