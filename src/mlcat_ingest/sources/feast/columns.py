"""Columns of a view: its fields and entities as features and keys, their types and properties."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.sources.definitions.tables import FEATURE_TYPES, Feature, Key
from mlcat_ingest.sources.feast.messages import VALUE_TYPES

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


def feature_type(number: int) -> MLFeatureDataType | None:
    """Return the data type of features whose value type has this number, None if it says none."""
    name = VALUE_TYPES.get(number, "")
    if name.endswith("_LIST"):
        return "SEQUENCE"
    if name.endswith("_SET"):
        return "SET"
    return _SCALARS.get(number)


def type_name(number: int) -> str:
    """Return Feast's name of the value type with this number, or the number itself."""
    return VALUE_TYPES.get(number, str(number))


_INTERNAL_TAGS: Final = ("feast:", "feast.connection-ref.")
"""Prefixes of the tags in which Feast keeps its own data: schemas, addresses of credentials."""


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


_DUMMY: Final = "__dummy"
"""The entity that Feast gives to a view without any."""

_DESCRIPTION_TAG: Final = "description"
"""The tag that held the description of a field before fields had one."""

Entities = Mapping[tuple[str, str], Any]
"""Specs of entities by project and name."""


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
            # Where an entity says no type, the view has inferred one.
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
