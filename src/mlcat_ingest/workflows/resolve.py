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
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.client.config import SINKS, EmbeddedSinkConfig, RestSinkConfig
from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.errors import RecipeError, UnknownPluginError
from mlcat_ingest.recipe.draft import read_draft
from mlcat_ingest.recipe.loader import Draft, Loc, Origin, Problem, did_you_mean, path_text
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.validate import Models, mask_secrets, validate_config
from mlcat_ingest.sources.base import Source

GROUP = "mlcat_ingest.sources"


class _BuiltIn(NamedTuple):
    """The places of a built-in source's configuration (cheap to import) and class: `module:Class`.

    Its class may need the modules of an `extra`.
    """

    config: str
    source: str
    extra: str | None = None


SOURCES: Mapping[str, _BuiltIn] = {
    "feast": _BuiltIn("feast.config:FeastConfig", "feast.source:FeastSource", "feast"),
    "definitions": _BuiltIn(
        "definitions.file_source:DefinitionsConfig", "definitions.file_source:DefinitionsSource"
    ),
    "mlflow": _BuiltIn("mlflow.config:MlflowConfig", "mlflow.source:MlflowSource"),
    "sagemaker": _BuiltIn(
        "sagemaker.config:SagemakerConfig", "sagemaker.source:SagemakerSource", "aws"
    ),
}
"""The built-in sources; their modules are those of `mlcat_ingest.sources`."""


def source_types() -> list[str]:
    """Return the name of every source that a recipe can use, sorted."""
    return sorted({*SOURCES, *(point.name for point in entry_points(group=GROUP))})


def config_class(name: str) -> type[BaseModel]:
    """Return the model of a source's configuration, without importing a built-in's reader.

    Raises:
        UnknownPluginError: no such source is installed, or it cannot be used.
    """
    built_in = SOURCES.get(name)
    if built_in is None:
        model = getattr(_plugin(name), "config_class", None)
    else:
        model = load(f"mlcat_ingest.sources.{built_in.config}")
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
        return load(f"mlcat_ingest.sources.{built_in.source}")
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
    problems: list[Problem] = []
    configs = _configs(data, recipe.origin, problems)
    return _resolved(recipe, configs, problems, data, recipe.origin)


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
    problems: list[Problem] = []
    configs = _configs(draft.data, draft.origin, problems)
    recipe, found = Recipe.from_draft(draft, list(configs.items()))
    return _resolved(recipe, configs, [*found, *problems], draft.data, draft.origin)


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


_Configs = Mapping[Loc, type[BaseModel]]


def _resolved(
    recipe: Recipe | None,
    configs: _Configs,
    problems: list[Problem],
    data: Mapping[str, Any],
    origin: Origin,
) -> ResolvedRecipe:
    models: Models = [((), Recipe), *configs.items()]
    made: dict[Loc, tuple[str, BaseModel]] = {}
    for loc, spec in _specs(data):
        raw = {} if spec.get("config") is None else spec["config"]
        if (model := configs.get((*loc, "config"))) is None or not isinstance(raw, Mapping):
            continue
        config, problems_here = validate_config(model, raw, (*loc, "config"), origin, models)
        problems.extend(problems_here)
        if config is not None:
            mask_secrets(config, raw)
            made[loc] = (spec["type"].strip(), config)
    kind, sink = made.pop(_SINK, ("", None))
    if isinstance(sink, RestSinkConfig):
        kind = "rest"
        problems.extend(_missing_address(sink, origin))
    if recipe is None or problems:
        raise origin.error(problems)
    return ResolvedRecipe(
        recipe,
        tuple(ResolvedSource(*side, path_text(loc)) for loc, side in made.items()),
        None if sink is None else ResolvedSink(kind, sink),
    )


_SINK: Final = ("sink",)


def _specs(data: Mapping[str, Any]) -> Iterator[tuple[Loc, Mapping[str, Any]]]:
    """Yield the sources and the sink that have a type, whatever else may be wrong with them."""
    sources = data.get("sources")
    listed = enumerate(sources if isinstance(sources, list) else [])
    places: list[tuple[Loc, Any]] = [(("sources", i), spec) for i, spec in listed]
    for loc, spec in [*places, (_SINK, data.get("sink"))]:
        if isinstance(spec, Mapping) and isinstance(spec.get("type"), str):
            yield loc, spec


def _configs(data: Mapping[str, Any], origin: Origin, problems: list[Problem]) -> _Configs:
    """Return the models of the configurations in a recipe, by their places."""
    models: dict[Loc, type[BaseModel]] = {}
    for loc, spec in _specs(data):
        kind = spec["type"].strip()
        try:
            models[*loc, "config"] = _sink_class(kind) if loc == _SINK else config_class(kind)
        except UnknownPluginError as error:
            known = sorted(SINKS) if loc == _SINK else source_types()
            sentence = str(error)
            if kind not in known:
                cure = did_you_mean(kind, known) or f"; available: {', '.join(known)}"
                sentence = f"is not a {str(loc[0]).rstrip('s')} that is installed{cure}"
            problems.append(origin.problem((*loc, "type"), sentence))
    return models


def _sink_class(kind: str) -> type[BaseModel]:
    if kind not in SINKS:
        raise UnknownPluginError(f"no sink {kind!r} is installed")
    return SINKS[kind][0]


def _missing_address(config: RestSinkConfig, origin: Origin) -> Iterator[Problem]:
    from mlcat_ingest.client.rest.catalog import credentials_of

    try:
        credentials_of(config, "`server`")
    except RecipeError as error:
        yield origin.problem(("sink", "config"), str(error))
