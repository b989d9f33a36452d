"""Reads the definitions of a Feast registry, whatever brings its objects."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from mlcat_ingest.core.awaiting import Awaited
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.sources.definitions.model import (
    Broken,
    Definition,
    FeatureRef,
    FeatureSet,
    FeatureTable,
)
from mlcat_ingest.sources.feast.columns import ColumnMapper
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.messages import MESSAGES, message_class
from mlcat_ingest.sources.feast.places import Places
from mlcat_ingest.sources.feast.raw import Kind, RawObject, Transport
from mlcat_ingest.sources.feast.upstream import Upstreams
from mlcat_ingest.sources.feast.views import ViewName, Views

_UsedT = TypeVar("_UsedT")


class FeastReader:
    """Reads a registry; see `DefinitionReader`. Nothing that it holds is executed.

    Cost: memory for the objects of the registry as they are stored; of what they say, entities,
    services and one table.
    """

    def __init__(self, config: FeastConfig, transport: Transport) -> None:
        """Keep what the recipe says, and what brings the objects."""
        self._config = config
        self._transport = transport
        self._objects: Mapping[Kind, list[RawObject]] | None = None

    def server_id(self) -> str:
        """Return what tells this registry from others."""
        return self._transport.server_id()

    def read(self) -> Iterator[Definition]:
        """Yield every table and set of the registry, and what of it is broken.

        On-demand views come after the views that they take from. The registry is fetched once, so
        that what is told beforehand is what comes.
        """
        if self._objects is None:
            objects: dict[Kind, list[RawObject]] = defaultdict(list)
            for one in self._transport.objects():
                objects[one.kind].append(one)
            self._objects = objects
        yield from _Reading(self._config, self._objects).definitions()

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return self._transport.awaited()

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""
        return self._transport.requests_made()

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found."""
        return self._transport.check()

    def close(self) -> None:
        """Release connections, and what was fetched."""
        self._objects = None
        self._transport.close()


class _Reading:
    """One pass over the objects of a registry."""

    def __init__(self, config: FeastConfig, objects: Mapping[Kind, list[RawObject]]) -> None:
        self._objects = objects
        self._broken: list[Broken] = []
        self._entities: dict[tuple[str, str], Any] = {}
        self._sources: dict[tuple[str, str], bytes] = {}
        self._services: dict[ViewName, list[str]] = defaultdict(list)
        self._seen: set[ViewName] = set()
        upstreams = Upstreams(Places(config), self._source)
        self._views = Views(ColumnMapper(self._entities), upstreams, self._services)

    def definitions(self) -> Iterator[Definition]:
        self._entities.update(
            self._each("entity", lambda raw, one: ((raw.project, one.spec.name), one.spec))
        )
        self._sources.update(
            self._each("data_source", lambda raw, one: ((raw.project, one.name), raw.proto))
        )
        yield from self._each("feature_service", self._set)
        views = self._views
        yield from self._tables("feature_view", views.feature_view)
        yield from self._tables("stream_feature_view", views.stream_feature_view)
        yield from self._tables("on_demand_feature_view", views.on_demand_feature_view)
        yield from self._tables("label_view", views.label_view)
        yield from self._broken

    def _each(self, kind: Kind, use: Callable[[RawObject, Any], _UsedT]) -> Iterator[_UsedT]:
        """Yield what `use` makes of the objects of a kind; what cannot be decoded is broken."""
        message = message_class(kind)
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
            refs.update((FeatureRef(view, one.name), None) for one in projection.feature_columns)
        for view in {projection.feature_view_name for projection in spec.features}:
            self._services[project, view].append(spec.name)
        return FeatureSet(namespace=project, name=spec.name, features=tuple(refs), aliases=aliases)

    def _tables(
        self, kind: Kind, table_of: Callable[[str, Any], FeatureTable]
    ) -> Iterator[FeatureTable]:
        def table(raw: RawObject, view: Any) -> FeatureTable | None:
            name = (raw.project, view.spec.name)
            if name in self._seen:
                reason = f"the registry has a second view {name[1]!r} in project {name[0]!r}"
                self._broken.append(Broken(namespace=name[0], name=name[1], reason=reason))
                return None
            self._seen.add(name)
            return table_of(raw.project, view)

        return (found for found in self._each(kind, table) if found is not None)
