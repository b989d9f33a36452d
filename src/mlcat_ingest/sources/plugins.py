"""The known sources: a table of the built-in ones, and entry points for all others.

A plug-in registers its source class in the entry-point group `mlcat_ingest.sources`; the name is
the `type` in a recipe. The class is a `sources.base.Source` and names its configuration:

    [project.entry-points."mlcat_ingest.sources"]
    my-registry = "my_package.source:MyRegistrySource"   # has config_class = MyRegistryConfig

A source is made by `source_class(config)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import UnknownPluginError
from mlcat_ingest.sources.base import Source

GROUP = "mlcat_ingest.sources"


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The places of a built-in source's configuration (cheap to import) and class: `module:Class`.

    Its class may need the modules of an `extra`.
    """

    config: str
    source: str
    extra: str | None = None


SOURCES: Mapping[str, BuiltIn] = {
    "feast": BuiltIn(
        config="mlcat_ingest.sources.feast.config:FeastConfig",
        source="mlcat_ingest.sources.feast.source:FeastSource",
        extra="feast",
    ),
    "definitions": BuiltIn(
        config="mlcat_ingest.sources.definitions.file_source:DefinitionsConfig",
        source="mlcat_ingest.sources.definitions.file_source:DefinitionsSource",
    ),
    "mlflow": BuiltIn(
        config="mlcat_ingest.sources.mlflow.config:MlflowConfig",
        source="mlcat_ingest.sources.mlflow.source:MlflowSource",
    ),
    "sagemaker": BuiltIn(
        config="mlcat_ingest.sources.sagemaker.config:SagemakerConfig",
        source="mlcat_ingest.sources.sagemaker.source:SagemakerSource",
        extra="aws",
    ),
}


def source_types() -> list[str]:
    """Return the name of every source that a recipe can use, sorted."""
    return sorted({*SOURCES, *(point.name for point in entry_points(group=GROUP))})


def config_class(name: str) -> type[BaseModel]:
    """Return the model of a source's configuration, without importing a built-in's reader.

    Raises:
        UnknownPluginError: no such source is installed, or it cannot be used.
    """
    built_in = SOURCES.get(name)
    model = (
        load(built_in.config)
        if built_in is not None
        else getattr(_plugin(name), "config_class", None)
    )
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise UnknownPluginError(
            f"the source plug-in {name!r} has no valid `config_class`",
            hint="set `config_class` of its class to a pydantic model",
        )
    return model


def source_class(name: str) -> Any:
    """Return the class of a source, which is made by `source_class(config)`.

    Raises:
        UnknownPluginError: no such source is installed, or it cannot be used.
        MissingExtraError: it needs an extra that is not installed.
    """
    built_in = SOURCES.get(name)
    if built_in is not None:
        if built_in.extra is not None:
            require_extra(built_in.extra, f"the source {name}")
        return load(built_in.source)
    source_type = _plugin(name)
    if not (isinstance(source_type, type) and issubclass(source_type, Source)):
        raise UnknownPluginError(
            f"the source plug-in {name!r} is not a source",
            hint="make its class a subclass of `mlcat_ingest.sources.base.Source`",
        )
    return source_type


def load(target: str) -> Any:
    """Return the object that `module:name` means."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def _plugin(name: str) -> Any:
    points: tuple[EntryPoint, ...] = tuple(entry_points(group=GROUP, name=name))
    if not points:
        raise UnknownPluginError(f"no source {name!r} is installed")
    try:
        return points[0].load()
    except (ImportError, AttributeError) as error:
        raise UnknownPluginError(
            f"the source plug-in {name!r} cannot be imported: {type(error).__name__}",
            hint="check that its dependencies are installed",
        ) from error
