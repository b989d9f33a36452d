"""Views of Feast as feature tables, with their columns. The code of a view is never looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.sources.definitions.tables import (
    FEATURE_TYPES,
    LABEL_VIEW,
    Feature,
    FeatureTable,
    Key,
)
from mlcat_ingest.sources.feast.registry import CONFLICT_POLICIES, STATES, VALUE_TYPES
from mlcat_ingest.sources.feast.upstream import NOTHING, UpstreamDatasets, Upstreams

_SCALARS: Final[Mapping[int, MLFeatureDataType]] = {
    **dict.fromkeys((1, 30), "BYTE"),
    **dict.fromkeys((3, 4), "ORDINAL"),
    **dict.fromkeys((5, 6, 44), "CONTINUOUS"),
    **dict.fromkeys((8, 48), "TIME"),
    **dict.fromkeys((20, 32, 34, 47), "MAP"),
    **dict.fromkeys((36, 37), "NOMINAL"),
    2: "TEXT",
    7: "BINARY",
    31: "IMAGE",
}

_INTERNAL_TAGS: Final = ("feast:", "feast.connection-ref.")
"""Prefixes of the tags in which Feast keeps its own data: schemas, addresses of credentials."""

_DUMMY: Final = "__dummy"
"""The entity that Feast gives to a view without any."""

_DESCRIPTION_TAG: Final = "description"
"""The tag that held the description of a field before fields had one."""

Entities = Mapping[tuple[str, str], Any]
"""Specs of entities by project and name."""

ViewName = tuple[str, str]
"""Project and name of a view."""


def feature_type(number: int) -> MLFeatureDataType | None:
    """Return the data type of features for the number of a value type, None if it has none."""
    name = VALUE_TYPES.get(number, "")
    if name.endswith("_LIST"):
        return "SEQUENCE"
    if name.endswith("_SET"):
        return "SET"
    return _SCALARS.get(number)


def type_name(number: int) -> str:
    """Return Feast's name of the value type with this number, or the number itself."""
    return VALUE_TYPES.get(number, str(number))


def feast_properties(**texts: str | bool | None) -> dict[str, str]:
    """Return custom properties for the texts that are not empty."""
    return {
        f"feast.{name}": str(text).lower() if isinstance(text, bool) else text
        for name, text in texts.items()
        if text not in {None, ""}
    }


def user_tags(tagged: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that people gave."""
    return {key: text for key, text in tagged.items() if key and not key.startswith(_INTERNAL_TAGS)}


def iso_time(holder: Any, field: str) -> str | None:
    """Return a `Timestamp` field as ISO 8601 in UTC, None where it is unset or out of bounds."""
    if not holder.HasField(field):
        return None
    try:
        return str(getattr(holder, field).ToJsonString())
    except (ValueError, OverflowError):
        return None


def in_seconds(duration: Any) -> str | None:
    """Return a `Duration` in seconds, None for none."""
    total = duration.seconds + duration.nanos / 1e9
    return f"{total:g}" if total else None


@dataclass(slots=True)
class ColumnMapper:
    """Makes features and keys of one registry; `untyped` are the types that were noted before."""

    entities: Entities
    untyped: set[int] = field(default_factory=set)

    def features(self, project: str, spec: Any, notes: list[Note]) -> Iterator[Feature]:
        """Yield the fields of a view's spec that are no join keys."""
        join_keys = {column.name for column in spec.entity_columns}
        join_keys.update(entity.join_key for _, entity in self._entities(project, spec) if entity)
        for feature in spec.features:
            if feature.name not in join_keys:
                yield self._feature(feature, notes)

    def keys(self, project: str, spec: Any, notes: list[Note]) -> Iterator[Key]:
        """Yield the entities of a view's spec."""
        columns = {column.name: column for column in spec.entity_columns}
        for name, entity in self._entities(project, spec):
            if entity is None:
                notes.append(Note("entity_unknown", name))
                yield Key(name=name)
                continue
            join_key = entity.join_key or name
            column = columns.get(join_key)
            # If an entity has no type, the view has inferred one.
            number = entity.value_type or (column.value_type if column is not None else 0)
            yield Key(
                name=name,
                column=join_key,
                type=self._type(number, notes),
                description=entity.description or None,
                owners=(entity.owner,) if entity.owner else (),
                tags=user_tags(entity.tags),
                properties=feast_properties(join_key=join_key, value_type=type_name(number)),
            )

    def _entities(self, project: str, spec: Any) -> Iterator[tuple[str, Any | None]]:
        for name in spec.entities:
            if name != _DUMMY:
                yield name, self.entities.get((project, name))

    def _feature(self, feature: Any, notes: list[Note]) -> Feature:
        tags = user_tags(feature.tags)
        description = feature.description or tags.pop(_DESCRIPTION_TAG, "")
        type_ = self._type(feature.value_type, notes)
        if TYPE_TAG in tags:
            tag = tags.pop(TYPE_TAG)
            if tag.strip().upper() not in FEATURE_TYPES:
                notes.append(Note("feature_type_unknown", f"{feature.name}: {TYPE_TAG} is {tag!r}"))
            type_ = FEATURE_TYPES.get(tag.strip().upper(), type_)
        return Feature(
            name=feature.name,
            type=type_,
            description=description or None,
            tags=tags,
            properties=feast_properties(
                value_type=type_name(feature.value_type),
                struct_schema=feature.tags.get("feast:struct_schema"),
                nested_type=feature.tags.get("feast:nested_inner_type"),
                vector_index=feature.vector_index or None,
                vector_length=str(feature.vector_length) if feature.vector_length else None,
                vector_search_metric=feature.vector_search_metric,
            ),
        )

    def _type(self, number: int, notes: list[Note]) -> MLFeatureDataType:
        type_ = feature_type(number)
        if type_ is None and number not in self.untyped:
            self.untyped.add(number)
            notes.append(Note("feature_type_unknown", f"value type {type_name(number)}"))
        return type_ or "UNKNOWN"


class Views:
    """Makes tables of the views of one registry; on-demand views come after what they refer to."""

    def __init__(
        self,
        columns: ColumnMapper,
        upstreams: Upstreams,
        services: Mapping[ViewName, Sequence[str]],
    ) -> None:
        """Keep the things that views refer to; `services` names the services that use a view."""
        self._columns = columns
        self._upstreams = upstreams
        self._services = services
        self._behind: dict[ViewName, UpstreamDatasets] = {}

    def feature_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of a `FeatureView`."""
        spec = view.spec
        properties = feast_properties(
            online=spec.online, offline=spec.offline or None, ttl_s=in_seconds(spec.ttl)
        )
        return self._table("Feature View", project, view, self._of_batch(project, spec), properties)

    def stream_feature_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of a `StreamFeatureView`."""
        spec = view.spec
        upstream = self._upstreams.of(project, spec, "stream_source", "batch_source")
        properties = feast_properties(
            online=spec.online,
            ttl_s=in_seconds(spec.ttl),
            aggregations=_aggregations(spec),
            timestamp_field=spec.timestamp_field,
        )
        return self._table("Stream Feature View", project, view, upstream, properties)

    def on_demand_feature_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of an `OnDemandFeatureView`, with the datasets behind its views."""
        spec = view.spec
        upstream, inputs = NOTHING, _Inputs([], [])
        for _, source in sorted(spec.sources.items()):
            upstream += self._of_input(project, source, inputs)
        properties = feast_properties(
            upstream_features=", ".join(inputs.features),
            request_fields=", ".join(inputs.request_fields),
            aggregations=_aggregations(spec),
            write_to_online_store=spec.write_to_online_store or None,
            singleton=spec.singleton or None,
        )
        return self._table("On Demand Feature View", project, view, upstream, properties)

    def label_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of a `LabelView`."""
        spec = view.spec
        properties = feast_properties(
            online=spec.online,
            ttl_s=in_seconds(spec.ttl),
            labeler_field=spec.labeler_field,
            conflict_policy=CONFLICT_POLICIES.get(spec.conflict_policy, str(spec.conflict_policy)),
            retain_history=spec.retain_history or None,
            reference_feature_view=spec.reference_feature_view,
        )
        upstream = self._upstreams.of(project, spec, "source")
        return self._table(LABEL_VIEW, project, view, upstream, properties)

    def _of_batch(self, project: str, spec: Any) -> UpstreamDatasets:
        """Return the datasets of a `FeatureViewSpec`, through the views below it."""
        upstream = self._upstreams.of(project, spec, "stream_source", "batch_source")
        for below in spec.source_views:
            upstream += self._of_batch(project, below)
        return upstream

    def _of_input(self, project: str, source: Any, inputs: "_Inputs") -> UpstreamDatasets:
        if source.HasField("request_data_source"):
            schema = source.request_data_source.request_data_options.schema
            inputs.request_fields.extend(field.name for field in schema)
            return NOTHING
        if source.HasField("feature_view"):
            spec = source.feature_view.spec
            inputs.features.extend(f"{spec.name}:{feature.name}" for feature in spec.features)
            return self._of_batch(project, spec)
        projection = source.feature_view_projection
        name = projection.feature_view_name
        inputs.features.extend(f"{name}:{column.name}" for column in projection.feature_columns)
        # A projection holds the batch source alone, if at all: the view itself knows more.
        behind = self._behind.get((project, name))
        if behind is None:
            behind = self._upstreams.of(project, projection, "stream_source", "batch_source")
        return behind

    def _table(
        self,
        kind: str,
        project: str,
        view: Any,
        upstream: UpstreamDatasets,
        properties: Mapping[str, str],
    ) -> FeatureTable:
        spec = view.spec
        notes = list(upstream.notes)
        self._behind[project, spec.name] = UpstreamDatasets(upstream.names, upstream.datasets)
        keys = tuple(self._columns.keys(project, spec, notes))
        features = tuple(self._columns.features(project, spec, notes))
        return FeatureTable(
            namespace=project,
            name=spec.name,
            kind=kind,
            description=spec.description or None,
            owners=(spec.owner,) if spec.owner else (),
            tags=user_tags(spec.tags),
            properties={
                **_common(view),
                **properties,
                **feast_properties(
                    sources=", ".join(upstream.names),
                    query_sha256=", ".join(upstream.queries),
                    services=", ".join(sorted(self._services.get((project, spec.name), ()))),
                ),
            },
            sources=upstream.datasets,
            keys=keys,
            features=features,
            notes=tuple(notes),
        )


class _Inputs(NamedTuple):
    """The inputs of an on-demand view: features of other views, and fields of the request."""

    features: list[str]
    request_fields: list[str]


def _common(view: Any) -> dict[str, str]:
    """Return the properties that views of all kinds have, as far as this one does."""
    spec, meta = view.spec, view.meta
    texts: dict[str, str | bool | None] = {
        name: getattr(spec, name, None) or None for name in ("mode", "version", "org", "disabled")
    }
    version = getattr(meta, "current_version_number", 0)
    state = getattr(meta, "state", 0)
    intervals = getattr(meta, "materialization_intervals", ())
    ends = (iso_time(interval, "end_time") for interval in intervals)
    return feast_properties(
        **texts,
        version_number=str(version) if version else None,
        state=STATES.get(state, str(state)) if state else None,
        created_at=iso_time(meta, "created_timestamp"),
        last_updated_at=iso_time(meta, "last_updated_timestamp"),
        materialized_until=max(filter(None, ends), default=None),
    )


def _aggregations(spec: Any) -> str:
    return ", ".join(
        f"{step.function}({step.column}) over {in_seconds(step.time_window) or '0'} s"
        for step in spec.aggregations
    )
