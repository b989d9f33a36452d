"""Patches as clients send them, read and checked.

A patch is RFC 6902 JSON Patch with DataHub's additions: arrays may be addressed by the key fields
of their entries instead of by position, `add` makes the parents that are missing, and of arrays
that the writer gave the keys of, `remove` takes what is there and is content where nothing is.
Source: `GenericJsonPatch` and the patch templates of DataHub's metadata model 1.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.limits import PATCH_KEYS, PATCH_OPERATIONS, PATCH_PATH_PARTS
from mlcat_ingest.catalog.store.patch.keyed import KeyPaths, Path
from mlcat_ingest.catalog.store.patch.lineage import ASPECTS_WITH_LINEAGE, FIELD
from mlcat_ingest.catalog.store.patch.templates import ArrayKeys, key_path, template_keys

Op = Literal["add", "remove", "replace", "test", "move", "copy"]

_OPS: Final = frozenset(get_args(Op))
_MISSING: Final = object()


class Operation(NamedTuple):
    """One step of a patch; `source` is where `move` and `copy` take from."""

    op: Op
    path: Path
    value: Any = None
    source: Path = ()


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch of one aspect that was understood.

    `keys` says which arrays are addressed by the fields of their entries. A `lenient` patch takes
    away what is there; any other is refused if it is told to take away what is not. One with
    `lineage` addresses the upstreams of fine-grained lineage one by one.
    """

    aspect: str
    operations: tuple[Operation, ...]
    keys: ArrayKeys
    lenient: bool = False
    lineage: bool = False

    @property
    def only_removes(self) -> bool:
        """Whether there is nothing in it that could make an aspect where none is."""
        return all(operation.op in {"remove", "test"} for operation in self.operations)


def read_patch(aspect: str, envelope: Mapping[str, Any]) -> Patch:
    """Return the patch of `aspect` that `envelope` holds.

    Raises:
        InvalidProposalError: it is none; the sentence names the field.
    """
    body = envelope.get("patch", _MISSING)
    if not isinstance(body, list):
        raise InvalidProposalError("patch: expected an array of operations")
    if len(body) > PATCH_OPERATIONS:
        raise InvalidProposalError(f"patch: more than {PATCH_OPERATIONS:,} operations")
    operations = tuple(_operation(item, f"patch[{at}]") for at, item in enumerate(body))
    given = _given_keys(envelope.get("arrayPrimaryKeys"))
    generic = envelope.get("forceGenericPatch") is True
    templated = not given and not generic
    return Patch(
        aspect,
        operations,
        template_keys(aspect) if templated else given,
        lenient=bool(given),
        lineage=templated
        and aspect in ASPECTS_WITH_LINEAGE
        and any(one.path[:1] == (FIELD,) != one.path for one in operations),
    )


def _operation(item: Any, place: str) -> Operation:
    if not isinstance(item, dict):
        raise InvalidProposalError(f"{place}: expected an object")
    op = item.get("op")
    if not isinstance(op, str) or op not in _OPS:
        raise InvalidProposalError(f"{place}.op: expected one of {', '.join(sorted(_OPS))}")
    path = _path(item.get("path"), f"{place}.path")
    source: Path = ()
    if op in {"move", "copy"}:
        source = _path(item.get("from"), f"{place}.from")
        if op == "move" and path[: len(source)] == source != path:
            raise InvalidProposalError(f"{place}.path: lies inside of what is moved")
    elif op != "remove" and "value" not in item:
        raise InvalidProposalError(f"{place}.value: missing")
    if op == "remove" and not path:
        raise InvalidProposalError(f"{place}.path: the whole aspect cannot be removed by a patch")
    return Operation(cast("Op", op), path, item.get("value"), source)


def _path(text: Any, place: str) -> Path:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise InvalidProposalError(f"{place}: expected a JSON pointer, as /field/key")
    parts = text.split("/")[1:]
    if len(parts) > PATCH_PATH_PARTS:
        raise InvalidProposalError(f"{place}: more than {PATCH_PATH_PARTS} parts")
    if "~" not in text:
        return tuple(parts)
    if any("~" in part.replace("~0", "").replace("~1", "") for part in parts):
        raise InvalidProposalError(f"{place}: '~' has to be followed by 0 or 1")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def _given_keys(given: Any) -> dict[Path, KeyPaths]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidProposalError("arrayPrimaryKeys: expected an object of arrays of field names")
    keys: dict[Path, KeyPaths] = {}
    for name, names in given.items():
        place = f"arrayPrimaryKeys.{name}"
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise InvalidProposalError(f"{place}: expected an array of field names")
        if len(names) > PATCH_KEYS:
            raise InvalidProposalError(f"{place}: more than {PATCH_KEYS} fields")
        keys[(name,)] = tuple(key_path(one) for one in names)
    return keys
