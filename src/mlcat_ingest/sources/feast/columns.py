"""Fields and entities of a view as features and keys."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.sources.definitions.model import Feature, Key
from mlcat_ingest.sources.feast import texts
from mlcat_ingest.sources.feast.types import feature_type, type_name

_DUMMY: Final = "__dummy"
"""The entity that Feast gives to a view without any."""

_DESCRIPTION_TAG: Final = "description"
"""Where descriptions of fields were kept before fields had one."""

_TYPES: Final[Mapping[str, MLFeatureDataType]] = {
    name: name for name in get_args(MLFeatureDataType)
}

Entities = Mapping[tuple[str, str], Any]
"""Specs of entities by project and name."""


@dataclass(slots=True)
class ColumnMapper:
    """Makes features and keys of one registry; `untyped` are the types that were noted so far."""

    entities: Entities
    untyped: set[int] = field(default_factory=set)

    def features(self, project: str, spec: Any, notes: list[Note]) -> Iterator[Feature]:
        """Yield the fields of a view's spec that are no join keys."""
        joined = {column.name for column in spec.entity_columns}
        joined.update(entity.join_key for _, entity in self._entities(project, spec) if entity)
        for one in spec.features:
            if one.name not in joined:
                yield self._feature(one, notes)

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
                tags=texts.tags(entity.tags),
                properties=texts.properties(join_key=join_key, value_type=type_name(number)),
            )

    def _entities(self, project: str, spec: Any) -> Iterator[tuple[str, Any | None]]:
        for name in spec.entities:
            if name != _DUMMY:
                yield name, self.entities.get((project, name))

    def _feature(self, one: Any, notes: list[Note]) -> Feature:
        tags = texts.tags(one.tags)
        description = one.description or tags.pop(_DESCRIPTION_TAG, "")
        type_ = self._type(one.value_type, notes)
        if TYPE_TAG in tags:
            asked = tags.pop(TYPE_TAG)
            if asked.strip().upper() not in _TYPES:
                notes.append(Note("feature_type_unknown", f"{one.name}: {TYPE_TAG} is {asked!r}"))
            type_ = _TYPES.get(asked.strip().upper(), type_)
        return Feature(
            name=one.name,
            type=type_,
            description=description or None,
            tags=tags,
            properties=_properties(one),
        )

    def _type(self, number: int, notes: list[Note]) -> MLFeatureDataType:
        found = feature_type(number)
        if found is None and number not in self.untyped:
            self.untyped.add(number)
            notes.append(Note("feature_type_unknown", f"value type {type_name(number)}"))
        return found or "UNKNOWN"


def _properties(one: Any) -> dict[str, str]:
    return texts.properties(
        value_type=type_name(one.value_type),
        struct_schema=one.tags.get("feast:struct_schema"),
        nested_type=one.tags.get("feast:nested_inner_type"),
        vector_index=one.vector_index or None,
        vector_length=str(one.vector_length) if one.vector_length else None,
        vector_search_metric=one.vector_search_metric,
    )
