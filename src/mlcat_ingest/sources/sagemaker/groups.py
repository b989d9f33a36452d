"""What AWS says of a feature group, as a feature table. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, get_args

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.sources.definitions.model import DatasetPlace, Feature, FeatureTable, Key
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
_NAMED_TYPES: Final[Mapping[str, MLFeatureDataType]] = {
    name: name for name in get_args(MLFeatureDataType)
}
_AWS_OWN: Final = ("aws:", "sagemaker:")
"""What the keys of tags begin with that AWS sets by itself."""

_CREATED_BY: Final = "sagemaker:user-profile-arn"
"""The tag by which Studio says who made a group."""

_TABLE_PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "arn": ("FeatureGroupArn",),
    "status": ("FeatureGroupStatus",),
    "failure_reason": ("FailureReason",),
    "created_at": ("CreationTime",),
    "last_modified_at": ("LastModifiedTime",),
    "last_update_status": ("LastUpdateStatus", "Status"),
    "last_update_failure": ("LastUpdateStatus", "FailureReason"),
    "record_identifier": ("RecordIdentifierFeatureName",),
    "event_time": ("EventTimeFeatureName",),
    "role_arn": ("RoleArn",),
    "online_store.enabled": ("OnlineStoreConfig", "EnableOnlineStore"),
    "online_store.storage": ("OnlineStoreConfig", "StorageType"),
    "online_store.kms_key": ("OnlineStoreConfig", "SecurityConfig", "KmsKeyId"),
    "offline_store.status": ("OfflineStoreStatus", "Status"),
    "offline_store.blocked_reason": ("OfflineStoreStatus", "BlockedReason"),
    "offline_store.format": ("OfflineStoreConfig", "TableFormat"),
    "offline_store.s3_uri": ("OfflineStoreConfig", "S3StorageConfig", "S3Uri"),
    "offline_store.resolved_s3_uri": (
        "OfflineStoreConfig",
        "S3StorageConfig",
        "ResolvedOutputS3Uri",
    ),
    "offline_store.kms_key": ("OfflineStoreConfig", "S3StorageConfig", "KmsKeyId"),
    "offline_store.catalog": ("OfflineStoreConfig", "DataCatalogConfig", "Catalog"),
    "throughput.mode": ("ThroughputConfig", "ThroughputMode"),
    "throughput.read_units": ("ThroughputConfig", "ProvisionedReadCapacityUnits"),
    "throughput.write_units": ("ThroughputConfig", "ProvisionedWriteCapacityUnits"),
}


@dataclass(frozen=True, slots=True)
class About:
    """What people wrote of one feature."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """How groups become tables.

    `about` is what people wrote of features, by group and feature; None where it was not read.
    """

    own_folder: bool
    about: Mapping[tuple[str, str], About] | None

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
        tags = {str(one["Key"]): str(one.get("Value", "")) for one in group.get("Tags") or ()}
        own = {k: v for k, v in tags.items() if k.startswith(_AWS_OWN)}
        owner = own.get(_CREATED_BY, "").rpartition("/")[2]
        return FeatureTable(
            namespace=None,
            name=name,
            kind=KIND,
            description=group.get("Description") or None,
            owners=(owner,) if owner else (),
            tags={k: v for k, v in tags.items() if k not in own},
            properties=dict(_properties(group, own)),
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
        about = About() if self.about is None else self.about.get((group_name, name), About())
        properties = dict(_column_properties(definition, about))
        if name == group.get("EventTimeFeatureName"):
            properties["sagemaker.event_time"] = "true"
        return {
            "name": name,
            "type": _type(name, definition, group, about, notes),
            "description": about.description,
            "properties": properties,
            "unread": frozenset({"description"}) if self.about is None else frozenset(),
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
    name: str, definition: Record, group: Record, about: About, notes: list[Note]
) -> MLFeatureDataType:
    told = about.parameters.get(TYPE_TAG)
    if told is not None and told in _NAMED_TYPES:
        return _NAMED_TYPES[told]
    if name == group.get("EventTimeFeatureName"):
        return "TIME"
    collection = definition.get("CollectionType")
    if collection:
        found = _COLLECTIONS.get(collection)
    else:
        found = _TYPES.get(definition.get("FeatureType") or "")
    if found is None:
        kind = collection or definition.get("FeatureType")
        notes.append(Note("feature_type_unknown", f"{kind} of {name}"))
    return found or "UNKNOWN"


def _column_properties(definition: Record, about: About) -> Iterator[tuple[str, str]]:
    for key, steps in (
        ("feature_type", ("FeatureType",)),
        ("collection_type", ("CollectionType",)),
        ("vector_dimension", ("CollectionConfig", "VectorConfig", "Dimension")),
    ):
        value = _text(_at(definition, steps))
        if value is not None:
            yield f"sagemaker.{key}", value
    for key, value in about.parameters.items():
        yield f"sagemaker.parameter.{key}", value


def _properties(group: Record, tags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, steps in _TABLE_PROPERTIES.items():
        value = _text(_at(group, steps))
        if value is not None:
            yield f"sagemaker.{key}", value
    lifetime = _at(group, ("OnlineStoreConfig", "TtlDuration")) or {}
    if "Value" in lifetime:
        told = f"{lifetime['Value']} {lifetime.get('Unit', '')}".strip()
        yield "sagemaker.online_store.ttl", told
    for key, value in tags.items():
        yield f"sagemaker.tag.{key}", value


def _at(record: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        record = (record or {}).get(step)
    return record


def _text(value: Any) -> str | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in {None, ""} else str(value)
