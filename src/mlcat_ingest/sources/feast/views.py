"""Views of Feast as feature tables. The code of a view is never looked at."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mlcat_ingest.sources.definitions.tables import LABEL_VIEW, FeatureTable
from mlcat_ingest.sources.feast.columns import (
    ColumnMapper,
    feast_properties,
    in_seconds,
    iso_time,
    user_tags,
)
from mlcat_ingest.sources.feast.messages import CONFLICT_POLICIES, STATES
from mlcat_ingest.sources.feast.upstream import NOTHING, UpstreamDatasets, Upstreams

ViewName = tuple[str, str]
"""Project and name of a view."""


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
            inputs.features.extend(f"{spec.name}:{one.name}" for one in spec.features)
            return self._of_batch(project, spec)
        projection = source.feature_view_projection
        name = projection.feature_view_name
        inputs.features.extend(f"{name}:{one.name}" for one in projection.feature_columns)
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
        f"{one.function}({one.column}) over {in_seconds(one.time_window) or '0'} s"
        for one in spec.aggregations
    )
