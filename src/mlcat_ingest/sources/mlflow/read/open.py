"""Opens the reader of a tracking URI and its model registry."""

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.values.uris import (
    is_databricks,
    is_http,
    is_readable_database,
    normalise_uri,
)


def open_reader(config: MlflowConfig) -> Reader:
    """Return the reader of a tracking URI: REST, SQL for a database, else MlflowClient.

    MlflowClient also reads a model registry elsewhere, but for a second server, which is read over
    REST.

    Raises:
        MissingExtraError: MlflowClient is needed, or a driver, and it is not installed.
        RecipeError, RetryableError, FatalError: a database cannot be opened, see `open_database`;
            or the recipe insists on a reader that cannot read a registry elsewhere.

    Cost: a database is connected to, to see the revision of its schema.
    """
    reader = None if config.reader == "client" else _direct(config)
    if reader is not None:
        return reader
    from mlcat_ingest.sources.mlflow.read.client import ClientReader

    return ClientReader(config)


def _direct(config: MlflowConfig) -> Reader | None:
    """Return a reader that needs no MLflow, None where there is none."""
    if not _reads_registry(config):
        if config.reader != "auto":
            raise RecipeError(
                f"`reader: {config.reader}` cannot read a model registry elsewhere",
                hint="delete `reader` or `registry_uri`",
            )
        return None
    if is_databricks(config.tracking_uri):
        from mlcat_ingest.sources.mlflow.read.databricks import DatabricksReader

        return DatabricksReader(config)
    if is_http(config.tracking_uri):
        return RestReader(config)
    if is_readable_database(config.tracking_uri):
        from mlcat_ingest.sources.mlflow.read.database.reader import open_database

        return open_database(config)
    return None


def _reads_registry(config: MlflowConfig) -> bool:
    """Return whether the reader of the tracking URI reads the model registry, too."""
    uri, registry_uri = config.tracking_uri, config.registry_uri
    return (
        registry_uri is None
        or (config.over_http and is_databricks(uri) == is_databricks(registry_uri))
        or normalise_uri(registry_uri) == normalise_uri(uri)
    )
