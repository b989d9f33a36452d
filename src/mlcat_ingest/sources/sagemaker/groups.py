"""Mapping of a feature group of AWS to a feature table. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.sources.definitions.tables import (
    FEATURE_TYPES,
    DatasetPlace,
    Feature,
    FeatureTable,
    Key,
)
from mlcat_ingest.sources.sagemaker.api import Record

KIND: Final = "Feature Group"

_TYPES: Final[Mapping[str, MLFeatureDataType]] = {
    "Integral": "ORDINAL",
    "Fractional": "CONTINUOUS",
    "String": "TEXT",
}
_COLLECTIONS: Final[Mapping[str, MLFeatureDataType]] = {
    "List": "SEQUENCE",
    "Vector": "SEQUENCE",
    "Set": "SET",
}
_AWS_OWN: Final = ("aws:", "sagemaker:")
"""Prefixes of the keys of tags that AWS sets by itself."""

_CREATED_BY: Final = "sagemaker:user-profile-arn"
"""The tag in which Studio names the creator of a group."""

_TABLE_PROPERTIES: Final = {
    "arn": "FeatureGroupArn",
    "status": "FeatureGroupStatus",
    "failure_reason": "FailureReason",
    "created_at": "CreationTime",
    "last_modified_at": "LastModifiedTime",
    "last_update_status": "LastUpdateStatus.Status",
    "last_update_failure": "LastUpdateStatus.FailureReason",
    "record_identifier": "RecordIdentifierFeatureName",
    "event_time": "EventTimeFeatureName",
    "role_arn": "RoleArn",
    "online_store.enabled": "OnlineStoreConfig.EnableOnlineStore",
    "online_store.storage": "OnlineStoreConfig.StorageType",
    "online_store.kms_key": "OnlineStoreConfig.SecurityConfig.KmsKeyId",
    "offline_store.status": "OfflineStoreStatus.Status",
    "offline_store.blocked_reason": "OfflineStoreStatus.BlockedReason",
    "offline_store.format": "OfflineStoreConfig.TableFormat",
    "offline_store.s3_uri": "OfflineStoreConfig.S3StorageConfig.S3Uri",
    "offline_store.resolved_s3_uri": "OfflineStoreConfig.S3StorageConfig.ResolvedOutputS3Uri",
    "offline_store.kms_key": "OfflineStoreConfig.S3StorageConfig.KmsKeyId",
    "offline_store.catalog": "OfflineStoreConfig.DataCatalogConfig.Catalog",
    "throughput.mode": "ThroughputConfig.ThroughputMode",
    "throughput.read_units": "ThroughputConfig.ProvisionedReadCapacityUnits",
    "throughput.write_units": "ThroughputConfig.ProvisionedWriteCapacityUnits",
}
"""Custom properties of a table, and the path of each in a group."""

_COLUMN_PROPERTIES: Final = {
    "feature_type": "FeatureType",
    "collection_type": "CollectionType",
    "vector_dimension": "CollectionConfig.VectorConfig.Dimension",
}
"""Custom properties of a column, and the path of each in a feature definition."""


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Description and parameters that people gave to one feature."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """Maps groups to tables.

    `metadata` is that of features, by group and feature; None where it was not read.
    """

    own_folder: bool
    metadata: Mapping[tuple[str, str], FeatureMetadata] | None

    def table(self, group: Record, *, has_tags: bool = True) -> FeatureTable:
        """Return a group as a table; without `has_tags` its tags could not be read."""
        name = str(group["FeatureGroupName"])
        notes: list[Note] = []
        key = group.get("RecordIdentifierFeatureName")
        features: list[Feature] = []
        keys: list[Key] = []
        for definition in group.get("FeatureDefinitions") or ():
            column = self._column(name, definition, group, notes)
            if column["name"] == key:
                keys.append(Key(**column, column=column["name"]))
            else:
                features.append(Feature(**column))
        tags = {str(tag["Key"]): str(tag.get("Value", "")) for tag in group.get("Tags") or ()}
        own = {k: v for k, v in tags.items() if k.startswith(_AWS_OWN)}
        owner = own.get(_CREATED_BY, "").rpartition("/")[2]
        return FeatureTable(
            namespace=None,
            name=name,
            kind=KIND,
            description=group.get("Description") or None,
            owners=(owner,) if owner else (),
            tags={k: v for k, v in tags.items() if k not in own},
            properties=_table_properties(group, own),
            sources=tuple(self._sources(group)),
            keys=tuple(keys),
            features=tuple(features),
            unread=frozenset() if has_tags else frozenset({"tags", "owners"}),
            notes=tuple(notes),
        )

    def _column(
        self, group_name: str, definition: Record, group: Record, notes: list[Note]
    ) -> dict[str, Any]:
        name = str(definition["FeatureName"])
        metadata = (self.metadata or {}).get((group_name, name), FeatureMetadata())
        properties = _properties(definition, _COLUMN_PROPERTIES)
        for key, value in metadata.parameters.items():
            properties[f"sagemaker.parameter.{key}"] = value
        if name == group.get("EventTimeFeatureName"):
            properties["sagemaker.event_time"] = "true"
        return {
            "name": name,
            "type": _type(name, definition, group, metadata, notes),
            "description": metadata.description,
            "properties": properties,
            "unread": frozenset({"description"}) if self.metadata is None else frozenset(),
        }

    def _sources(self, group: Record) -> Iterator[DatasetPlace]:
        """Yield the table in Glue first, and then the place in S3 of the same data."""
        offline = group.get("OfflineStoreConfig") or {}
        catalog = offline.get("DataCatalogConfig") or {}
        if catalog.get("Database") and catalog.get("TableName"):
            yield DatasetPlace("glue", f"{catalog['Database']}.{catalog['TableName']}")
        storage = offline.get("S3StorageConfig") or {}
        own = storage.get("ResolvedOutputS3Uri") if self.own_folder else None
        uri = str(own or storage.get("S3Uri") or "")
        scheme, separator, place = uri.partition("://")
        if separator and scheme == "s3" and place:
            yield DatasetPlace("s3", place)


def _type(
    name: str, definition: Record, group: Record, metadata: FeatureMetadata, notes: list[Note]
) -> MLFeatureDataType:
    tag = metadata.parameters.get(TYPE_TAG)
    if tag is not None and tag in FEATURE_TYPES:
        return FEATURE_TYPES[tag]
    if name == group.get("EventTimeFeatureName"):
        return "TIME"
    collection, scalar = definition.get("CollectionType"), definition.get("FeatureType")
    type_ = _COLLECTIONS.get(collection) if collection else _TYPES.get(scalar or "")
    if type_ is None:
        notes.append(Note("feature_type_unknown", f"{collection or scalar} of {name}"))
    return type_ or "UNKNOWN"


def _table_properties(group: Record, tags: Mapping[str, str]) -> dict[str, str]:
    properties = _properties(group, _TABLE_PROPERTIES)
    lifetime = _value_at(group, "OnlineStoreConfig.TtlDuration") or {}
    if "Value" in lifetime:
        ttl = f"{lifetime['Value']} {lifetime.get('Unit', '')}".strip()
        properties["sagemaker.online_store.ttl"] = ttl
    return {**properties, **{f"sagemaker.tag.{key}": value for key, value in tags.items()}}


def _properties(record: Record, paths: Mapping[str, str]) -> dict[str, str]:
    """Return the values at `paths` of a record as custom properties."""
    texts = {key: _text(_value_at(record, path)) for key, path in paths.items()}
    return {f"sagemaker.{key}": text for key, text in texts.items() if text is not None}


def _value_at(record: Any, path: str) -> Any:
    for step in path.split("."):
        record = (record or {}).get(step)
    return record


def _text(value: Any) -> str | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in {None, ""} else str(value)
