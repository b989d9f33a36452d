"""Maps files of models: `MLmodel` documents, the feature table of their inputs, model cards."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from mlcat_ingest.core.text import compact_json
from mlcat_ingest.metadata.aspects import MLFeatureDataType
from mlcat_ingest.metadata.card_sections import card_aspects, is_read, sections_of
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.sources.definitions.tables import Feature, FeatureScope, FeatureTable, map_table
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import Truncator
from mlcat_ingest.sources.mlflow.values.joined import JoinedSignature, RunFiles
from mlcat_ingest.sources.mlflow.values.records import (
    Column,
    JsonObjects,
    PropertyKey,
    SubType,
)
from mlcat_ingest.sources.mlflow.values.signatures import MadeModel

ValueT = TypeVar("ValueT")

_TYPES: Final[Mapping[str, MLFeatureDataType]] = {
    "boolean": "BINARY",
    "integer": "ORDINAL",
    "long": "ORDINAL",
    "float": "CONTINUOUS",
    "double": "CONTINUOUS",
    "string": "TEXT",
    "binary": "BYTE",
    "datetime": "TIME",
    "object": "MAP",
    "map": "MAP",
    "array": "SEQUENCE",
    "sparkml_vector": "SEQUENCE",
}
"""Source: `mlflow/types/schema.py`, `DataType` and the composed types of MLflow 3.17."""

_SIGNATURE_PARTS: Final[Mapping[str, PropertyKey]] = {
    "inputs": PropertyKey.SIGNATURE_INPUTS,
    "outputs": PropertyKey.SIGNATURE_OUTPUTS,
    "params": PropertyKey.SIGNATURE_PARAMETERS,
}
"""The property of each part of a signature, by MLflow's name of the part."""

_DTYPES: Final[Sequence[tuple[str, MLFeatureDataType]]] = (
    ("bool", "BINARY"),
    ("int", "ORDINAL"),
    ("uint", "ORDINAL"),
    ("float", "CONTINUOUS"),
    ("datetime", "TIME"),
    ("str", "TEXT"),
    ("bytes", "BYTE"),
)
"""Types of tensors with one number an example, by the beginning of numpy's name of theirs."""


def add_documents(custom: PropertiesBuilder, models: Sequence[MadeModel]) -> None:
    """Add URI, flavors, signature and size of the models that a run made, or of a version's.

    A size that all models have is one number, and the parts of a signature that all have are
    properties of their own, which DataHub's page of a model shows as tables. Else they are JSON by
    model URI.

    Source: `MLModelSummary.tsx` of DataHub's web app, for the names of these parts.
    """
    if not models:
        return
    known = {made.uri: made.document for made in models if made.document is not None}
    flavors = {name for document in known.values() for name in document.flavors}
    frameworks = {name for document in known.values() for name in document.frameworks}
    signatures = {uri: document.signature for uri, document in known.items() if document.signature}
    sizes = {
        uri: document.size_bytes
        for uri, document in known.items()
        if document.size_bytes is not None
    }
    custom.set_own(PropertyKey.MODEL_URI, ",".join(made.uri for made in models))
    custom.set_own(PropertyKey.MODEL_FLAVORS, ",".join(sorted(flavors)))
    custom.set_own(PropertyKey.FRAMEWORK_VERSIONS, ",".join(sorted(frameworks)))
    if signatures:
        same = _all_have(signatures, models)
        if same is None:
            custom.set_own(PropertyKey.SIGNATURE, _by_uri("signatures", signatures, custom))
        for part, columns in (same or {}).items():
            custom.set_own(_SIGNATURE_PARTS[part], _columns_text(part, columns, custom))
    if sizes:
        size = _all_have(sizes, models)
        text = _by_uri("sizes of models", sizes, custom) if size is None else str(size)
        custom.set_own(PropertyKey.MODEL_SIZE_BYTES, text)


def add_card(
    aspects: dict[str, Aspect],
    files: RunFiles,
    models: Sequence[MadeModel],
    truncator: Truncator,
) -> None:
    """Add the aspects of the card that models have, empty ones where they have none.

    Cards that differ are none: it is not known which of them is the run's. Nothing is added where
    no cards were read.
    """
    if files.cards is None:
        return
    cards = {made.card for made in models if made.card is not None}
    if len(cards) > 1:
        truncator.note("cards_differ", ", ".join(made.uri for made in models))
        cards = set()
    card = card_aspects(
        {
            heading: [truncator.text(entry, f"model card, {heading}") for entry in entries]
            for text in cards
            for heading, entries in sections_of(text).items()
            if is_read(heading)
        }
    )
    for heading, entries in card.unfit.items():
        truncator.note("card_entry_unfit", f"{heading}: {entries[0]}")
    aspects.update(card.aspects)


def _all_have(values: Mapping[str, ValueT], models: Sequence[MadeModel]) -> ValueT | None:
    """Return the value that all models have, None where they differ or one is not known."""
    first = next(iter(values.values()))
    same = len(values) == len(models) and all(value == first for value in values.values())
    return first if same else None


def _columns_text(part: str, columns: JsonObjects, custom: PropertiesBuilder) -> str:
    """Return a part of a signature as JSON that one property has room for, if need be cut."""
    text = columns.text
    room = custom.truncator.limits.value_chars
    if len(text) <= room:
        return text
    room -= len("[]")
    kept = 0
    for column in columns:
        room -= len(compact_json(column)) + len(",")
        if room < 0:
            break
        kept += 1
    custom.leave_out(f"{part} of the signature", kept, len(columns))
    return compact_json(columns[:kept])


def _by_uri(what: str, values: Mapping[str, object], custom: PropertiesBuilder) -> str:
    """Return as many of `values` as one property has room for, as JSON by model URI."""
    room = custom.truncator.limits.value_chars - len("{}")
    kept = {}
    for uri, value in values.items():
        room -= len(compact_json({uri: value}))
        if room >= 0:
            kept[uri] = value
    custom.leave_out(what, len(kept), len(values))
    return compact_json(kept)


def map_signature(record: JoinedSignature) -> list[Entity]:
    """Return the feature table of a signature, and its features before it.

    Raises:
        InvalidUrnError: the table can have no URN.
    """
    limits = record.scope.limits
    truncator = Truncator(limits)
    custom = PropertiesBuilder(truncator)
    custom.set_own(PropertyKey.SIGNATURE_OF, record.owner)
    names = custom.limit_entries("columns", list(record.columns), limits.columns)
    table = FeatureTable(
        name=record.table.table,
        namespace=None,
        kind=SubType.MODEL_SIGNATURE,
        properties=custom.values,
        features=tuple(_feature(name, record, truncator) for name in names),
        notes=tuple(truncator.notes),
    )
    return list(map_table(FeatureScope(record.scope.naming, record.scope.source_key), table))


def _feature(name: str, record: JoinedSignature, truncator: Truncator) -> Feature:
    column = record.columns[name]
    custom = PropertiesBuilder(truncator)
    custom.set_own(PropertyKey.SIGNATURE_OF, record.owner)
    custom.set_own(PropertyKey.COLUMN_TYPE, column_type(column))
    return Feature(name=name, type=feature_type(column), properties=custom.values)


def column_type(column: Column) -> str:
    """Return MLflow's type of a column, as JSON if it is not one word."""
    shown = {key: value for key, value in column.items() if key not in {"name", "required"}}
    only_type = shown.get("type") if len(shown) == 1 else None
    return only_type if isinstance(only_type, str) else compact_json(shown)


def feature_type(column: Column) -> MLFeatureDataType:
    """Return the data type of the feature that a column is; a tensor of numbers is a sequence."""
    spec = column.get("tensor-spec")
    if not isinstance(spec, Mapping):
        kind = column.get("type")
        return _TYPES.get(kind, "UNKNOWN") if isinstance(kind, str) else "UNKNOWN"
    shape, dtype = spec.get("shape"), str(spec.get("dtype"))
    if isinstance(shape, list) and len(shape) > 1:
        return "SEQUENCE"
    return next((kind for start, kind in _DTYPES if dtype.startswith(start)), "UNKNOWN")
