"""Which transport fetches the registry that a recipe names."""

from pathlib import Path

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sources.feast.addresses import kind_of, local_path
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.raw import Transport
from mlcat_ingest.sources.feast.transport.file import LocalFile
from mlcat_ingest.sources.feast.transport.whole import RegistryContent, WholeRegistry


def transport_for(config: FeastConfig) -> Transport:
    """Return what fetches the registry of a `config` that is settled; nothing is contacted.

    Raises:
        RecipeError: the address cannot be used.
        MissingExtraError: what fetches it is not installed.
    """
    registry = config.registry
    if registry is None:
        raise RecipeError("feast: no `registry` is given, and no feature_store.yaml names one")
    kind = kind_of(registry.path, registry.registry_type)
    if kind == "sql":
        from mlcat_ingest.sources.feast.transport.database import DatabaseRegistry

        return DatabaseRegistry(registry.path, config)
    if kind == "remote":
        from mlcat_ingest.sources.feast.transport.grpc import GrpcRegistry

        return GrpcRegistry(registry.path, config)
    if kind == "rest":
        from mlcat_ingest.sources.feast.transport.rest import RestRegistry

        return RestRegistry(registry.path, config)
    return WholeRegistry(_content(kind, registry.path, config))


def may_hide(config: FeastConfig) -> bool:
    """Return whether what the registry lists may depend on who asks: a server's permissions."""
    registry = config.registry
    asks_a_server = registry is not None and kind_of(registry.path, registry.registry_type) in {
        "remote",
        "rest",
    }
    return asks_a_server and any(
        (config.token, config.username, config.headers, config.client_cert)
    )


def _content(kind: str, address: str, config: FeastConfig) -> RegistryContent:
    match kind:
        case "s3":
            from mlcat_ingest.sources.feast.transport.s3 import S3Object

            return S3Object(address, config)
        case "object":
            from mlcat_ingest.sources.feast.transport.objectstore import StoredObject

            return StoredObject(address, config)
        case _:
            return LocalFile(Path(local_path(address)), max_bytes=config.max_bytes)
