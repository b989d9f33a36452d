"""The SageMaker source: reads the feature groups of one account and region, and checks access."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain
from typing import Any, ClassVar, Final

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError, NotAuthorizedError, ProtocolMismatchError
from mlcat_ingest.metadata.aspects import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.metadata.urn import decoded_parts, entity_type_of
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.definitions.tables import (
    Broken,
    DatasetPlace,
    Definition,
    Feature,
    FeatureTable,
    Key,
    chosen_type,
)
from mlcat_ingest.sources.sagemaker.api import Record, SagemakerApi
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig

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
}
"""Custom properties of a table, and the path of each in a group, be it found or described."""

_COLUMN_PROPERTIES: Final = {
    "feature_type": "FeatureType",
    "collection_type": "CollectionType",
    "vector_dimension": "CollectionConfig.VectorConfig.Dimension",
}
"""Custom properties of a column, and the path of each in a feature definition."""

log = logging.getLogger(__name__)

_WITHOUT: Final = {
    "sagemaker:Search": "groups are described one by one, which is slower",
    "sagemaker:Search of features": "features have no descriptions and parameters",
    "sagemaker:ListFeatureGroups": "needed only where sagemaker:Search is denied",
    "sagemaker:DescribeFeatureGroup": "deleted groups and features remain in the catalog",
    "sagemaker:ListTags": "needed only where sagemaker:Search is denied",
}

_NEEDED: Final = (
    *("FeatureGroupArn", "FeatureDefinitions"),
    *("RecordIdentifierFeatureName", "EventTimeFeatureName"),
)
"""Keys of every group: one without them was not found as a whole."""

_DELETING: Final = "Deleting"

_Metadata = Mapping[tuple[str, str], Record]
"""What people said of features, by group and feature: `Description` and `Parameters`."""


@dataclass(frozen=True, slots=True)
class _GroupMapping:
    """Maps groups to tables; `metadata` is None where it was not read."""

    own_folder: bool
    metadata: _Metadata | None

    def table(self, group: Record) -> FeatureTable:
        """Return a group as a table; if its tags are None, they could not be read."""
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
            unread=frozenset({"tags", "owners"} if group.get("Tags", ()) is None else ()),
            notes=tuple(notes),
        )

    def _column(
        self, group_name: str, definition: Record, group: Record, notes: list[Note]
    ) -> dict[str, Any]:
        name = str(definition["FeatureName"])
        metadata = (self.metadata or {}).get((group_name, name), {})
        given = metadata.get("Parameters") or ()
        parameters = {str(one["Key"]): str(one.get("Value", "")) for one in given}
        properties = _properties(definition, _COLUMN_PROPERTIES)
        properties |= {f"sagemaker.parameter.{key}": text for key, text in parameters.items()}
        if name == group.get("EventTimeFeatureName"):
            properties["sagemaker.event_time"] = "true"
        return {
            "name": name,
            "type": chosen_type(name, parameters.get(TYPE_TAG), notes)
            or _type(name, definition, group, notes),
            "description": metadata.get("Description") or None,
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


def _type(name: str, definition: Record, group: Record, notes: list[Note]) -> MLFeatureDataType:
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


class SagemakerSource(FeatureSource):
    """Reads the feature groups of one account and region as feature tables.

    Search gives everything in one request for each 100 groups. If it is denied, or gives only part
    of a group, groups are listed and described one by one.
    """

    platform: ClassVar = "sagemaker"
    _config: SagemakerConfig

    def __init__(self, config: SagemakerConfig, api: SagemakerApi | None = None) -> None:
        """Keep the configuration; nothing is contacted. `api` is made by it if not given."""
        super().__init__(config)
        self._api = self.traffic = api or SagemakerApi(config)
        self._location = ""
        self._tags_denied = False

    def server_id(self) -> str:
        """Return account and region of the groups, or of the caller where there are none.

        Cost: one request, two where there are no groups.
        """
        if not self._location:
            try:
                first = next(chain.from_iterable(self._api.search("FeatureGroup", 1)), None)
            except NotAuthorizedError:
                first = next(chain.from_iterable(self._api.list_groups()), None)
            arn = "" if first is None else str(first.get("FeatureGroupArn", ""))
            parts = arn.split(":")
            account_region = (parts[4], parts[3]) if len(parts) > 5 else self._api.caller()
            self._location = "_".join(account_region)
        return self._location

    def _instance(self) -> str | None:
        """Return account and region, which the names of groups do not contain."""
        instance = super()._instance()
        return instance if instance or self._config.compat else self.server_id()

    def definitions(self) -> Iterator[Definition]:
        """Yield every feature group that is not being deleted.

        Cost: a request for each 100 groups, and for each 100 features; see the class.
        """
        metadata, notes = self._feature_metadata()
        mapping = _GroupMapping(self._config.names_own_folder, metadata)
        for group in self._groups():
            if isinstance(group, Broken):
                yield group
            elif group.get("FeatureGroupStatus") != _DELETING:
                try:
                    table = mapping.table(group)
                except (AttributeError, LookupError, TypeError, ValueError) as error:
                    reason = f"not shaped as SageMaker's: {type(error).__name__}: {error}"
                    yield Broken(namespace=None, name=str(group["FeatureGroupName"]), reason=reason)
                    continue
                yield replace(table, notes=(*notes, *table.notes)) if notes else table
                notes = ()

    def _feature_metadata(self) -> tuple[_Metadata | None, tuple[Note, ...]]:
        """Return the metadata of features, None and a note where it cannot be read."""
        if not self._config.feature_metadata:
            return None, ()
        try:
            metadata = {
                (str(record["FeatureGroupName"]), str(record["FeatureName"])): {
                    key: record[key] for key in ("Description", "Parameters") if key in record
                }
                for record in chain.from_iterable(self._api.search("FeatureMetadata"))
                if record.get("Description") or record.get("Parameters")
            }
        except (NotAuthorizedError, ProtocolMismatchError) as error:
            log.warning("cannot read descriptions and parameters of features: %s", error)
            return None, (Note("feature_metadata_unread", error.message),)
        return metadata, ()

    def _groups(self) -> Iterator[Record | Broken]:
        """Yield every group, with None for tags that could not be read."""
        try:
            for group in chain.from_iterable(self._api.search("FeatureGroup")):
                if all(group.get(name) for name in _NEEDED):
                    yield group
                else:
                    yield from self._describe(str(group["FeatureGroupName"]))
        except NotAuthorizedError as error:
            log.warning("describing feature groups one by one: %s", error)
            for summary in chain.from_iterable(self._api.list_groups()):
                yield from self._describe(str(summary["FeatureGroupName"]))

    def _describe(self, name: str) -> Iterator[Record | Broken]:
        """Yield a group that Search does not give as a whole, unless it is gone since."""
        try:
            group = self._api.describe(name)
        except NotAuthorizedError as error:
            yield Broken(namespace=None, name=name, reason=str(error))
            return
        if group is not None:
            yield {**group, "Tags": self._tags(str(group["FeatureGroupArn"]))}

    def _tags(self, arn: str) -> Sequence[Record] | None:
        """Return the tags of a group, None where they may not be read."""
        if self._tags_denied:
            return None
        try:
            return self._api.tags(arn)
        except NotAuthorizedError as error:
            log.warning("cannot read tags of feature groups: %s", error)
            self._tags_denied = True
            return None

    def _current_columns(self, group: str) -> Mapping[str, set[str]] | None:
        """Return the current columns of a group by type of entity, None if it is deleted.

        Cost: one request for each 2,500 features.
        """
        current = self._api.describe(group)
        if current is None or current.get("FeatureGroupStatus") == _DELETING:
            return None
        keys = {str(current["RecordIdentifierFeatureName"])}
        names = {str(feature["FeatureName"]) for feature in current["FeatureDefinitions"]}
        return {"mlPrimaryKey": keys, "mlFeature": names - keys}

    def check(self) -> Iterator[Finding]:
        """Yield whether SageMaker answers, the account, and the permissions by their IAM actions.

        Each is tried by itself, so that one which is denied hides no other.

        Cost: at most seven requests.
        """
        try:
            yield Finding("SageMaker account and region", "ok", self.server_id())
        except MlcatError as error:
            yield Finding("SageMaker account and region", "failed", error.message, error.hint)
            return
        errors: dict[str, MlcatError | None] = {}

        def first(action: str, request: Callable[[], Iterable[Record]]) -> Record | None:
            errors[action] = None
            try:
                return next(iter(request()), None)
            except MlcatError as error:
                errors[action] = error
                return None

        api = self._api
        described = first("sagemaker:Search", lambda: next(api.search("FeatureGroup", 1), ()))
        first("sagemaker:Search of features", lambda: next(api.search("FeatureMetadata", 1), ()))
        summary = first("sagemaker:ListFeatureGroups", lambda: next(api.list_groups(), ()))
        group = described or summary
        if group is not None:
            name, arn = str(group["FeatureGroupName"]), str(group["FeatureGroupArn"])
            first("sagemaker:DescribeFeatureGroup", lambda: [api.describe(name) or {}])
            first("sagemaker:ListTags", lambda: api.tags(arn))
        # Without Search and List nothing can be read.
        neither = errors["sagemaker:Search"] and errors["sagemaker:ListFeatureGroups"]
        for action, denial in errors.items():
            what = f"SageMaker permission: {action}"
            if denial is None:
                yield Finding(what, "ok")
            else:
                detail = f"{denial.message}: {_WITHOUT[action]}"
                yield Finding(what, "failed" if neither else "warning", detail, denial.hint)

    def close(self) -> None:
        """Release connections; safe to call twice."""
        self._api.close()

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield the candidates for removal, each with a check by name.

        Search reads an index, which may lag behind.
        """
        columns = cache(self._current_columns)
        for candidate in super().missing(partition, unlisted):
            yield replace(candidate, is_gone=partial(_is_gone, candidate.urn, columns))


def _is_gone(urn: str, columns: Callable[[str], Mapping[str, set[str]] | None]) -> bool:
    """Return whether AWS confirms that a group, or its column, no longer exists."""
    kind, parts = entity_type_of(urn), decoded_parts(urn)
    table = parts[1] if kind == "mlFeatureTable" else parts[0]
    try:
        # Names of groups hold no dots, while instance and prefix end in one.
        current = columns(table.rpartition(".")[2])
    except NotAuthorizedError as error:
        log.warning("kept %s, since its deletion cannot be verified: %s", urn, error)
        return False
    return current is None or (kind in current and parts[1] not in current[kind])
