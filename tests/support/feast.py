"""Feast registries for tests: the one that Feast made, and small ones made of messages."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.links.index import FeatureSet
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.definitions.tables import Broken, Definition, FeatureTable
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.registry import (
    MESSAGES,
    RawObject,
    RegistryTransport,
    split_registry,
)
from mlcat_ingest.sources.feast.source import FeastSource
from support.reading import records_of

DATA = Path(__file__).parents[1] / "data" / "feast"
REGISTRY = DATA / "registry.db"
SQL_REGISTRY = DATA / "registry.sqlite"


class Objects(RegistryTransport):
    """A transport of objects that are there already."""

    def __init__(self, objects: Iterable[RawObject]) -> None:
        self._objects = objects

    def server_id(self) -> str:
        return "registry"

    def objects(self) -> Iterator[RawObject]:
        return iter(self._objects)

    def check(self) -> Iterator[Finding]:
        return iter(())


def config(**options: Any) -> FeastConfig:
    return FeastConfig.model_validate({"registry": str(REGISTRY), **options})


def registry(**lists: Any) -> bytes:
    content: bytes = MESSAGES["Registry"](**lists).SerializeToString()
    return content


def read(content: bytes, **options: Any) -> list[Definition]:
    return list(FeastSource(config(**options), Objects(split_registry(content))).definitions())


def tables(definitions: Iterable[Definition]) -> dict[str, FeatureTable]:
    return {one.name: one for one in definitions if isinstance(one, FeatureTable)}


def sets(definitions: Iterable[Definition]) -> dict[str, FeatureSet]:
    return {one.name: one for one in definitions if isinstance(one, FeatureSet)}


def broken(definitions: Iterable[Definition]) -> Sequence[Broken]:
    return [one for one in definitions if isinstance(one, Broken)]


def table_of(
    view: dict[str, Any], options: dict[str, Any] | None = None, **lists: Any
) -> FeatureTable:
    """Return the one table of a registry whose one batch view has this spec."""
    spec = {"name": "view", "project": "p", **view}
    content = registry(feature_views=[{"spec": spec}], **lists)
    return tables(read(content, **(options or {})))["view"]


def entities_of_registry() -> list[Entity]:
    """Return what the registry that Feast made becomes, with all that a recipe can add."""
    source = FeastSource(
        config(
            server_id="registry",
            repo_path="/repo",
            label_views=True,
            connections={
                "snowflake": {"database": "ANALYTICS", "schema": "FEATURES"},
                "postgres": {"database": "accounts"},
            },
        )
    )
    return [entity for record in records_of(source) for entity in source.map(record)]
