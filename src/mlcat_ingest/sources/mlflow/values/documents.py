"""The document `MLmodel`, which MLflow writes beside every model: flavors, signature and size.

MLflow 2 has the same in a tag of the run, MLflow 3 only in a file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mlcat_ingest.sources.mlflow.values.records import json_or_none

_PARTS: Final = ("inputs", "outputs", "params")

Column = Mapping[str, Any]
"""A column or parameter of a signature, as MLflow writes it: type, and most often a name."""

_MAX_SIZE: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ModelDocument:
    """An `MLmodel`; `signature` has inputs, outputs and params as far as they are not empty."""

    flavors: tuple[str, ...] = ()
    signature: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    size_bytes: int | None = None

    @property
    def input_names(self) -> frozenset[str]:
        """The names of the inputs, as far as they have one."""
        return frozenset(name_of(one) for one in self.signature.get("inputs", ())) - {""}


def name_of(column: Column) -> str:
    """Return the name of a column, empty for none."""
    name = column.get("name")
    return name if isinstance(name, str) else ""


def model_document(content: Mapping[str, Any]) -> ModelDocument:
    """Return the document that `content` is; parts that cannot be read are left out."""
    flavors, signature = content.get("flavors"), content.get("signature")
    size = content.get("model_size_bytes")
    parts = {}
    if isinstance(signature, Mapping):
        read = {part: _columns(signature.get(part)) for part in _PARTS}
        parts = {part: columns for part, columns in read.items() if columns}
    return ModelDocument(
        flavors=tuple(sorted(map(str, flavors))) if isinstance(flavors, Mapping) else (),
        signature=parts,
        size_bytes=size if type(size) is int and 0 <= size <= _MAX_SIZE else None,
    )


def _columns(value: Any) -> Sequence[Column]:
    """Return the columns in a part of a signature, which is JSON, or what JSON can hold."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return ()
    found = json_or_none(value)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else ()
