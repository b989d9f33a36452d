"""Resolution of a recipe: types of sources and sink to their configurations and classes.

Sources are a table of the built-in ones, and entry points for all others. A plug-in registers its
class in the entry-point group `mlcat_ingest.sources`; the name is the `type` in a recipe. The class
is a `sources.base.Source` and names its configuration:

    [project.entry-points."mlcat_ingest.sources"]
    my-registry = "my_package.source:MyRegistrySource"   # has config_class = MyRegistryConfig

A source is made by `source_class(config)`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.client.config import SINK_ALIASES, SINKS, EmbeddedSinkConfig, RestSinkConfig
from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.errors import RecipeError, UnknownPluginError
from mlcat_ingest.recipe.draft import Draft, read_draft
from mlcat_ingest.recipe.loader import Loc, Origin, Problem, nearest, path_text
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.validate import mask_secrets, validate_config
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


@dataclass(frozen=True, slots=True)
class ResolvedSource:
    """A source of the recipe: its type, its configuration, checked, and its place."""

    type: str
    config: BaseModel
    place: str

    def build(self) -> Source[Any]:
        """Import the source's class and return it made; nothing is contacted yet."""
        source: Source[Any] = source_class(self.type)(self.config)
        source.place = self.place
        return source


@dataclass(frozen=True, slots=True)
class ResolvedSink:
    """The sink of the recipe: its type (never an alias) and its configuration, checked."""

    type: str
    config: BaseModel

    def build(self) -> Catalog:
        """Import the sink's class and return it made; nothing is contacted yet."""
        sink: Catalog = load(SINKS[self.type][1])(self.config)
        return sink


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """A recipe with every type in it resolved; `sink` is None where the recipe has none."""

    recipe: Recipe
    sources: tuple[ResolvedSource, ...]
    sink: ResolvedSink | None


def resolve(recipe: Recipe) -> ResolvedRecipe:
    """Return `recipe` with its sources and its sink resolved and their configurations checked.

    Raises:
        RecipeValidationError: a type is not installed or a configuration is wrong; all is listed.
    """
    data = {
        "sources": [{"type": spec.type, "config": spec.config} for spec in recipe.sources],
        "sink": recipe.sink and {"type": recipe.sink.type, "config": recipe.sink.config},
    }
    return _resolve_data(recipe, [], data, recipe.origin)


def load_resolved(path: str | Path, environ: Mapping[str, str] | None = None) -> ResolvedRecipe:
    """Return the recipe in a file, resolved; `-` reads standard input.

    Unlike `resolve(Recipe.load(path))` it lists what is wrong in the recipe and in its plug-ins'
    configurations together.

    Raises:
        RecipeError: the file cannot be read.
        RecipeSyntaxError: it is not YAML or JSON.
        RecipeValidationError: something in it is wrong; all of it is listed.
    """
    return resolve_draft(read_draft(path, environ))


def resolve_draft(draft: Draft) -> ResolvedRecipe:
    """Return the recipe of a draft, resolved.

    Raises:
        RecipeValidationError: something in it is wrong; all of it is listed.
    """
    recipe, problems = Recipe.from_draft(draft)
    return _resolve_data(recipe, problems, draft.data, draft.origin)


def embedded_sink(folder: Path) -> ResolvedSink:
    """Return the sink of a recipe that names none: the embedded catalog in `folder`."""
    return ResolvedSink("embedded", EmbeddedSinkConfig(db=f"sqlite:///{folder / DEFAULT_CATALOG}"))


def service_sink(raw: Mapping[str, Any], label: str = "") -> ResolvedSink:
    """Return the sink of type `rest` with the configuration `raw`, which `label` is the place of.

    Without a `server` it is the service of the environment.

    Raises:
        RecipeValidationError: something in `raw` is wrong.
    """
    origin = Origin(label)
    config, problems = validate_config(RestSinkConfig, raw, (), origin)
    if config is None:
        raise origin.error(problems)
    mask_secrets(config, raw)
    return ResolvedSink("rest", config)


DEFAULT_CATALOG = "mlcat-catalog.db"


def _resolve_data(
    recipe: Recipe | None, problems: list[Problem], data: Mapping[str, Any], origin: Origin
) -> ResolvedRecipe:
    all_problems = list(problems)
    sources: list[ResolvedSource] = []
    for loc, spec in _source_specs(data):
        kind = str(spec["type"]).strip()
        model = _source_model(kind, loc, origin, all_problems)
        config = _config(model, spec, loc, origin, all_problems)
        if config is not None:
            sources.append(ResolvedSource(kind, config, path_text(loc)))
    sink = _sink(data.get("sink"), origin, all_problems)
    if recipe is None or all_problems:
        raise origin.error(all_problems)
    return ResolvedRecipe(recipe, tuple(sources), sink)


def _source_specs(data: Mapping[str, Any]) -> Iterator[tuple[Loc, Mapping[str, Any]]]:
    """Yield the sources that have a type, whatever else may be wrong with them."""
    specs = data.get("sources")
    for i, spec in enumerate(specs if isinstance(specs, list) else []):
        if isinstance(spec, Mapping) and isinstance(spec.get("type"), str):
            yield ("sources", i), spec


def _source_model(
    kind: str, loc: Loc, origin: Origin, problems: list[Problem]
) -> type[BaseModel] | None:
    try:
        return config_class(kind)
    except UnknownPluginError as error:
        known = source_types()
        sentence = str(error) if kind in known else _unknown("source", kind, known)
        problems.append(origin.problem((*loc, "type"), sentence))
        return None


def _sink(spec: Any, origin: Origin, problems: list[Problem]) -> ResolvedSink | None:
    if not isinstance(spec, Mapping) or not isinstance(spec.get("type"), str):
        return None
    written = str(spec["type"]).strip()
    kind = SINK_ALIASES.get(written, written)
    if kind not in SINKS:
        known = sorted({*SINKS, *SINK_ALIASES})
        problems.append(origin.problem(("sink", "type"), _unknown("sink", kind, known)))
        return None
    config = _config(SINKS[kind][0], spec, ("sink",), origin, problems)
    if isinstance(config, RestSinkConfig):
        problems.extend(_missing_address(config, origin))
    return None if config is None else ResolvedSink(kind, config)


def _missing_address(config: RestSinkConfig, origin: Origin) -> Iterator[Problem]:
    from mlcat_ingest.client.rest.catalog import credentials_of

    try:
        credentials_of(config, "`server`")
    except RecipeError as error:
        yield origin.problem(("sink", "config"), str(error))


def _config(
    model: type[BaseModel] | None,
    spec: Mapping[str, Any],
    loc: Loc,
    origin: Origin,
    problems: list[Problem],
) -> BaseModel | None:
    raw = spec.get("config")
    raw = {} if raw is None else raw
    if model is None or not isinstance(raw, Mapping):
        return None
    config, problems_here = validate_config(model, raw, (*loc, "config"), origin)
    problems.extend(problems_here)
    if config is not None:
        mask_secrets(config, raw)
    return config


def _unknown(what: str, kind: str, known: list[str]) -> str:
    meant = nearest(kind, known)
    cure = f"did you mean `{meant}`?" if meant else f"available: {', '.join(known)}"
    return f"is not a {what} that is installed; {cure}"
