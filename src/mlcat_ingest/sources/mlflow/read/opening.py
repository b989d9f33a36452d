"""Which reader reads a tracking URI; each is imported only where it is needed."""

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader
from mlcat_ingest.sources.mlflow.values.uris import is_http, is_readable_database, normalised


def open_reader(config: MlflowConfig) -> Reader:
    """Return the reader of a tracking URI: REST for http(s), SQL for a database, else MlflowClient.

    A model registry elsewhere gets a reader of its own. Where one of the two has to be read through
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
    if registry_uri is None or config.over_http or normalised(registry_uri) == normalised(uri):
        return _direct_of_one(config)
    tracking = _direct_of_one(config.of_one(uri))
    if tracking is None:
        return None
    registry = _direct_of_one(config.of_one(registry_uri))
    if registry is None:
        tracking.close()
        return None
    from mlcat_ingest.sources.mlflow.read.split import SplitReader

    return SplitReader(tracking, registry)


def _direct_of_one(config: MlflowConfig) -> Reader | None:
    if is_http(config.tracking_uri):
        from mlcat_ingest.sources.mlflow.read.rest import RestReader

        return RestReader(config)
    if is_readable_database(config.tracking_uri):
        from mlcat_ingest.sources.mlflow.read.database.reader import open_database

        return open_database(config)
    return None
