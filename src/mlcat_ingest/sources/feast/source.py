"""The Feast source: reads the definitions of a registry through one of its transports."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar

from google.protobuf.message import DecodeError

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.links.index import FeatureRef, FeatureSet
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.definitions.tables import Broken, Definition, FeatureTable
from mlcat_ingest.sources.feast.config import FeastConfig, RegistryKind, with_repo_options
from mlcat_ingest.sources.feast.registry import (
    KINDS,
    MESSAGES,
    PLURALS,
    RawObject,
    RegistryTransport,
    own_id,
)
from mlcat_ingest.sources.feast.views import Upstreams, ViewName, Views

_UsedT = TypeVar("_UsedT")

_TRANSPORTS: Final[Mapping[RegistryKind, tuple[str, str]]] = {
    "file": ("files", "LocalFile"),
    "s3": ("files", "S3Object"),
    "object": ("files", "StoredObject"),
    "sql": ("database", "DatabaseRegistry"),
    "remote": ("grpc", "GrpcRegistry"),
}
"""The modules and classes of transports, imported when they are needed."""


class FeastSource(FeatureSource):
    """Reads the feature views of a Feast registry as feature tables; nothing in it is executed.

    Cost: memory for the objects of the registry as they are stored, and decoded for entities,
    services, on-demand views and one table.
    """

    config_class: ClassVar = FeastConfig
    platform: ClassVar = "feast"
    empty: ClassVar = "the registry is empty: run `feast apply`, or correct `registry`"
    _config: FeastConfig

    def __init__(self, config: FeastConfig, transport: RegistryTransport | None = None) -> None:
        """Add the options of feature_store.yaml to those of the recipe; nothing is contacted.

        `transport` is made by them if not given.

        Raises:
            RecipeError: the recipe, or the feature_store.yaml that it leads to, cannot be used.
        """
        config = with_repo_options(config)
        super().__init__(config)
        self.address = "" if config.registry is None else redact_url(config.registry.path)
        self._transport = self.traffic = transport or transport_for(config)
        self._objects: Mapping[str, list[RawObject]] | None = None

    def server_id(self) -> str:
        """Return the registry's own id, or its address where users may see only part of it."""
        if self._config.server_id is not None:
            return self._config.server_id
        objects = {} if _may_hide(self._config) else self._fetched()
        own = own_id(objects.get("project_metadata", ()), objects.get("project", ()))
        return own or self._transport.server_id()

    def definitions(self) -> Iterator[Definition]:
        """Yield every table and set of the registry, and its broken definitions.

        The registry is fetched once, so that the tables announced before the run are those that
        come.
        """
        yield from _RegistryDecoder(self._config, self._fetched()).definitions()

    def _fetched(self) -> Mapping[str, list[RawObject]]:
        if self._objects is None:
            objects: dict[str, list[RawObject]] = defaultdict(list)
            for raw in self._transport.objects():
                objects[raw.kind].append(raw)
            self._objects = objects
        return self._objects

    def check(self) -> Iterator[Finding]:
        """Yield the findings of `mlcat-ingest check`; the registry is read once."""
        try:
            objects, identity = self._fetched(), self.server_id()
        except MlcatError as error:
            yield Finding("Feast registry", "failed", error.message, error.hint)
            return
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for raw in chain.from_iterable(objects.values()):
            if raw.kind != "project_metadata":
                counts[raw.project][raw.kind] += 1
        shown, total = self._transport.shown, sum(kinds.total() for kinds in counts.values())
        if not counts:
            hint = "run `feast apply`, and check that the user may read its objects"
            yield Finding("Feast registry", "warning", f"{shown} is readable and empty", hint)
            return
        yield Finding("Feast registry", "ok", f"{shown} is readable: {plural(total, 'object')}")
        yield Finding("Feast server id", "ok", identity)
        for project, kinds in sorted(counts.items()):
            words = (
                plural(kinds[kind], kind.replace("_", " "), named.replace("_", " "))
                for kind, named in PLURALS.items()
                if kind != "project" and kinds[kind]
            )
            listed = ", ".join(words) or "nothing"
            yield Finding("Feast project", "ok", f"{project or 'none'}: {listed}")

    def _takes(self, definition: FeatureTable | Broken) -> bool:
        config = self._config
        if not config.projects.allows(definition.namespace or ""):
            return False
        if isinstance(definition, FeatureTable) and definition.has_labels:
            return config.label_views and super()._takes(definition)
        return super()._takes(definition)

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield the candidates for removal: those of `unlisted` that the registry lost.

        A server with permissions leaves out all that the user may not see. So an object that it
        does not list may still be there.
        """
        return () if _may_hide(self._config) else super().missing(partition, unlisted)

    def close(self) -> None:
        """Release connections, and the fetched objects."""
        self._objects = None
        self._transport.close()


class _RegistryDecoder:
    """One pass over the objects of a registry."""

    def __init__(self, config: FeastConfig, objects: Mapping[str, list[RawObject]]) -> None:
        self._objects = objects
        self._broken: list[Broken] = []
        self._entities: dict[tuple[str, str], Any] = {}
        self._sources: dict[tuple[str, str], bytes] = {}
        self._services: dict[ViewName, list[str]] = defaultdict(list)
        self._seen: set[ViewName] = set()
        self._views = Views(self._entities, Upstreams(config, self._source), self._services)

    def definitions(self) -> Iterator[Definition]:
        self._entities.update(
            self._decode("entity", lambda raw, one: ((raw.project, one.spec.name), one.spec))
        )
        self._sources.update(
            self._decode("data_source", lambda raw, source: ((raw.project, source.name), raw.proto))
        )
        yield from self._decode("feature_service", self._set)
        for kind in KINDS:
            if kind.endswith("view"):
                yield from self._tables(kind)
        yield from self._broken

    def _decode(self, kind: str, use: Callable[[RawObject, Any], _UsedT]) -> Iterator[_UsedT]:
        """Yield the results of `use` for the objects of a kind; note those that are broken."""
        message = MESSAGES[kind.title().replace("_", "")]
        for raw in self._objects.get(kind, ()):
            try:
                used = use(raw, message.FromString(raw.proto))
            except (DecodeError, UnicodeDecodeError):
                # Older versions of protobuf see only when a text is asked for that it is none.
                what = kind.replace("_", " ")
                reason = f"the {what} {raw.name!r} of project {raw.project!r} cannot be decoded"
                is_table = kind.endswith("view")
                name = raw.name if is_table or not raw.name else f"{what} {raw.name}"
                self._broken.append(Broken(namespace=raw.project, name=name, reason=reason))
            else:
                yield used

    def _source(self, project: str, name: str) -> Any | None:
        """Return a registered data source; few are asked for, as views hold copies of theirs."""
        proto = self._sources.get((project, name))
        return None if proto is None else MESSAGES["DataSource"].FromString(proto)

    def _set(self, raw: RawObject, service: Any) -> FeatureSet:
        project, spec = raw.project, service.spec
        refs: dict[FeatureRef, None] = {}
        aliases: dict[str, str] = {}
        for projection in spec.features:
            view, alias = projection.feature_view_name, projection.feature_view_name_alias
            if alias and alias != view:
                aliases[alias] = view
            refs.update(
                (FeatureRef(view, column.name), None) for column in projection.feature_columns
            )
        for view in {projection.feature_view_name for projection in spec.features}:
            self._services[project, view].append(spec.name)
        return FeatureSet(namespace=project, name=spec.name, features=tuple(refs), aliases=aliases)

    def _tables(self, kind: str) -> Iterator[FeatureTable]:
        views = self._decode(kind, lambda raw, view: (raw.project, view))
        for project, view in _in_order(views) if kind == "on_demand_feature_view" else views:
            name = (project, view.spec.name)
            if name in self._seen:
                reason = f"the registry has a second view {name[1]!r} in project {name[0]!r}"
                self._broken.append(Broken(namespace=project, name=name[1], reason=reason))
                continue
            self._seen.add(name)
            yield self._views.table(kind, project, view)


def _in_order(views: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield on-demand views with their projects, each after the on-demand views it takes from."""
    by_name: dict[ViewName, list[tuple[str, Any]]] = defaultdict(list)
    sorter: TopologicalSorter[ViewName] = TopologicalSorter()
    for project, view in views:
        name = (project, view.spec.name)
        by_name[name].append((project, view))
        taken = (
            one.feature_view_projection.feature_view_name for one in view.spec.sources.values()
        )
        sorter.add(name, *((project, other) for other in taken))
    with suppress(CycleError):  # those in a cycle, which Feast cannot evaluate, come last
        sorter.prepare()
    while ready := sorter.get_ready():
        for name in ready:
            yield from by_name.pop(name, ())
        sorter.done(*ready)
    yield from chain.from_iterable(by_name.values())


def transport_for(config: FeastConfig) -> RegistryTransport:
    """Return the transport for the registry of a `config`; nothing is contacted.

    Raises:
        RecipeError, NotAuthorizedError: the address or the credentials cannot be used.
        MissingExtraError: a package that the transport needs is not installed.
    """
    registry = config.registry
    if registry is None:
        raise RecipeError(
            "feast: no registry in the recipe or in feature_store.yaml", hint="set `registry`"
        )
    module, name = _TRANSPORTS[registry.kind]
    imported = import_module(f"mlcat_ingest.sources.feast.{module}")
    transport: RegistryTransport = getattr(imported, name)(registry.path, config)
    return transport


def _may_hide(config: FeastConfig) -> bool:
    """Return whether the listing may depend on the user: a server has permissions."""
    if config.registry is None or config.registry.kind != "remote":
        return False
    return any((config.token, config.username, config.headers, config.client_cert))
