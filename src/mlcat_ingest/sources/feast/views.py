"""Views of Feast as feature tables. What a view would run is not looked at."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.sources.definitions.model import LABEL_VIEW, FeatureTable
from mlcat_ingest.sources.feast import texts
from mlcat_ingest.sources.feast.columns import ColumnMapper
from mlcat_ingest.sources.feast.upstream import NOTHING, UpstreamDatasets, Upstreams

_STATES: Final = dict(enumerate(("", "CREATED", "GENERATED", "MATERIALIZING", "AVAILABLE_ONLINE")))
_POLICIES: Final = dict(enumerate(("LAST_WRITE_WINS", "LABELER_PRIORITY", "MAJORITY_VOTE")))

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
        """Keep what views refer to; `services` are the names of the services that use a view."""
        self._columns = columns
        self._upstreams = upstreams
        self._services = services
        self._behind: dict[ViewName, UpstreamDatasets] = {}

    def feature_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of a `FeatureView`."""
        spec = view.spec
        upstream = self._of_batch(project, spec)
        more = texts.properties(
            online=spec.online, offline=spec.offline or None, ttl_s=texts.seconds(spec.ttl)
        )
        return self._table("Feature View", project, view, upstream, more)

    def stream_feature_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of a `StreamFeatureView`."""
        spec = view.spec
        upstream = self._upstreams.of(project, spec, "stream_source", "batch_source")
        more = texts.properties(
            online=spec.online,
            ttl_s=texts.seconds(spec.ttl),
            aggregations=_aggregations(spec),
            timestamp_field=spec.timestamp_field,
        )
        return self._table("Stream Feature View", project, view, upstream, more)

    def on_demand_feature_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of an `OnDemandFeatureView`, made from what is behind its views."""
        spec = view.spec
        upstream, inputs = NOTHING, _Inputs()
        for _, source in sorted(spec.sources.items()):
            upstream += self._of_input(project, source, inputs)
        more = texts.properties(
            upstream_features=", ".join(inputs.features),
            request_fields=", ".join(inputs.asked),
            aggregations=_aggregations(spec),
            write_to_online_store=spec.write_to_online_store or None,
            singleton=spec.singleton or None,
        )
        return self._table("On Demand Feature View", project, view, upstream, more)

    def label_view(self, project: str, view: Any) -> FeatureTable:
        """Return the table of a `LabelView`."""
        spec = view.spec
        more = texts.properties(
            online=spec.online,
            ttl_s=texts.seconds(spec.ttl),
            labeler_field=spec.labeler_field,
            conflict_policy=_POLICIES.get(spec.conflict_policy, str(spec.conflict_policy)),
            retain_history=spec.retain_history or None,
            reference_feature_view=spec.reference_feature_view,
        )
        upstream = self._upstreams.of(project, spec, "source")
        return self._table(LABEL_VIEW, project, view, upstream, more)

    def _of_batch(self, project: str, spec: Any) -> UpstreamDatasets:
        """Return what a `FeatureViewSpec` is made from, through the views below it."""
        found = self._upstreams.of(project, spec, "stream_source", "batch_source")
        for below in spec.source_views:
            found += self._of_batch(project, below)
        return found

    def _of_input(self, project: str, source: Any, inputs: "_Inputs") -> UpstreamDatasets:
        if source.HasField("request_data_source"):
            schema = source.request_data_source.request_data_options.schema
            inputs.asked.extend(one.name for one in schema)
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
        more: Mapping[str, str],
    ) -> FeatureTable:
        spec = view.spec
        notes = list(upstream.notes)
        self._behind[project, spec.name] = UpstreamDatasets(upstream.names, upstream.places)
        keys = tuple(self._columns.keys(project, spec, notes))
        features = tuple(self._columns.features(project, spec, notes))
        return FeatureTable(
            namespace=project,
            name=spec.name,
            kind=kind,
            description=spec.description or None,
            owners=(spec.owner,) if spec.owner else (),
            tags=texts.tags(spec.tags),
            properties={
                **_common(view),
                **more,
                **texts.properties(
                    sources=", ".join(upstream.names),
                    query_sha256=", ".join(upstream.queries),
                    services=", ".join(sorted(self._services.get((project, spec.name), ()))),
                ),
            },
            sources=upstream.places,
            keys=keys,
            features=features,
            notes=tuple(notes),
        )


class _Inputs:
    """What an on-demand view takes: features of other views, and fields of the request."""

    def __init__(self) -> None:
        self.features: list[str] = []
        self.asked: list[str] = []


def _common(view: Any) -> dict[str, str]:
    """Return the properties that views of all kinds have, as far as this one does."""
    spec, meta = view.spec, view.meta
    said: dict[str, str | bool | None] = {
        name: getattr(spec, name, None) or None for name in ("mode", "version", "org", "disabled")
    }
    version = getattr(meta, "current_version_number", 0)
    state = getattr(meta, "state", 0)
    return texts.properties(
        **said,
        version_number=str(version) if version else None,
        state=_STATES.get(state, str(state)),
        created_at=texts.time(meta, "created_timestamp"),
        last_updated_at=texts.time(meta, "last_updated_timestamp"),
        materialized_until=max(_ends(meta), default=None),
    )


def _ends(meta: Any) -> Iterator[str]:
    for interval in getattr(meta, "materialization_intervals", ()):
        end = texts.time(interval, "end_time")
        if end is not None:
            yield end


def _aggregations(spec: Any) -> str:
    return ", ".join(
        f"{one.function}({one.column}) over {texts.seconds(one.time_window) or '0'} s"
        for one in spec.aggregations
    )
