"""JSON patches (RFC 6902) of aspects: read from their envelope, checked and applied.

DataHub adds to RFC 6902: arrays may be addressed by the key fields of their entries instead of by
position, and `add` makes the parents that are missing. In arrays whose keys the writer gave,
`remove` of an absent entry succeeds. Fine-grained lineage is patched as a tree.
Source: `GenericJsonPatch` and the patch templates of DataHub's metadata model 1.7.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args, get_origin

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.limits import (
    PATCH_KEYS,
    PATCH_OPERATIONS,
    PATCH_PATH_PARTS,
    PATCH_TAKEN_BYTES,
)
from mlcat_ingest.catalog.schema.values import SYSTEM_ACTOR
from mlcat_ingest.catalog.store.patch_document import AbsentError, KeyPaths, PatchedDocument, Path
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.aspects.assets import UPSTREAM_LINEAGE
from mlcat_ingest.metadata.aspects.common import AuditStamp
from mlcat_ingest.metadata.aspects.processes import DATA_JOB_INPUT_OUTPUT
from mlcat_ingest.metadata.aspects.untyped import CHART_INFO, DASHBOARD_INFO, SIBLINGS
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.registry import ASPECTS, DECLARED, defaults
from mlcat_ingest.metadata.shapes import fields

Op = Literal["add", "remove", "replace", "test", "move", "copy"]

_OPS: Final = frozenset(get_args(Op))

_ENVELOPE: Final = frozenset({"patch", "arrayPrimaryKeys", "forceGenericPatch"})

FIELD: Final = "fineGrainedLineages"

ASPECTS_WITH_LINEAGE: Final = frozenset({UPSTREAM_LINEAGE, DATA_JOB_INPUT_OUTPUT})

_NONE = "NONE"
_TYPES = ("upstreamType", "downstreamType")

ArrayKeys: TypeAlias = Mapping[Path, KeyPaths]
"""The key parts of arrays, by the fields that lead to each array."""


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
    away what is there; any other is refused if it removes something that is not there. One with
    `lineage` addresses the upstreams of fine-grained lineage one by one.
    """

    aspect: str
    operations: tuple[Operation, ...]
    keys: ArrayKeys
    lenient: bool = False
    lineage: bool = False

    @property
    def only_removes(self) -> bool:
        """True if no operation could create an absent aspect."""
        return all(operation.op in {"remove", "test"} for operation in self.operations)


def read_patch(aspect: str, envelope: Mapping[str, Any]) -> Patch:
    """Return the patch of `aspect` that `envelope` holds.

    Raises:
        InvalidProposalError: it is none; the sentence names the field.
    """
    unknown = sorted(envelope.keys() - _ENVELOPE)
    if unknown:
        raise InvalidProposalError(f"{unknown[0]}: unknown field of a patch")
    body = envelope["patch"]
    if len(body) > PATCH_OPERATIONS:
        raise InvalidProposalError(f"patch: more than {PATCH_OPERATIONS:,} operations")
    given = _given_keys(envelope.get("arrayPrimaryKeys"))
    templated = not given and envelope.get("forceGenericPatch") is not True
    spec = DECLARED.get(aspect)
    if templated and (spec is None or spec.patch_keys is None):
        raise InvalidProposalError(
            f"Patch not supported for aspect with name {aspect}",
            hint="send arrayPrimaryKeys and forceGenericPatch with the patch",
        )
    operations = tuple(_operation(item, f"patch[{at}]") for at, item in enumerate(body))
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
            raise InvalidProposalError(f"{place}.path: inside the value to move")
    elif op != "remove" and "value" not in item:
        raise InvalidProposalError(f"{place}.value: missing")
    if op == "remove" and not path:
        raise InvalidProposalError(f"{place}.path: the whole aspect cannot be removed by a patch")
    return Operation(cast("Op", op), path, item.get("value"), source)


def _path(text: Any, place: str) -> Path:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise InvalidProposalError(f"{place}: expected a JSON pointer, such as /field/key")
    parts = text.split("/")[1:]
    if len(parts) > PATCH_PATH_PARTS:
        raise InvalidProposalError(f"{place}: more than {PATCH_PATH_PARTS} parts")
    if "~" not in text:
        return tuple(parts)
    if any("~" in part.replace("~0", "").replace("~1", "") for part in parts):
        raise InvalidProposalError(f"{place}: '~' must be followed by 0 or 1")
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


_NESTED: Final = "\u241f"


def key_path(name: str) -> Path:
    """Return where a key field is in an entry; a name with U+241F leads into a nested object."""
    return tuple(name.split(_NESTED))


@cache
def template_keys(aspect: str) -> ArrayKeys:
    """Return the keys by which a patch without any addresses the arrays of `aspect`."""
    spec = DECLARED.get(aspect)
    return MappingProxyType(
        {
            tuple(array.split(".")): tuple(key_path(name) for name in names.split())
            for array, names in ((spec and spec.patch_keys) or {}).items()
        }
    )


@cache
def is_list(aspect: str, field: str) -> bool:
    """Return whether a field of `aspect` holds an array."""
    spec = ASPECTS.get(aspect)
    if spec is None or spec.type is None:
        return False
    declared = fields(spec.type).get(field)
    return declared is not None and get_origin(declared.hint) is list


def blank(aspect: str, now_ms: int) -> dict[str, Any]:
    """Return what a patch of an `aspect` that is not there starts from, as a fresh value.

    These are the fields that the service fills in (maps among them), required arrays without
    entries, and required stamps of this moment.
    """
    stamp = {"time": now_ms, "actor": SYSTEM_ACTOR}
    keyed: dict[str, Any] = {path[0]: [] for path in template_keys(aspect) if len(path) == 1}
    spec = ASPECTS.get(aspect)
    if spec is None or spec.type is None:
        return keyed | _required_fields(aspect, stamp)
    known = fields(spec.type)
    value = defaults(aspect) | {name: array for name, array in keyed.items() if name in known}
    for field in known.values():
        if field.required and field.name not in value:
            if field.hint is AuditStamp:
                value[field.name] = stamp
            elif get_origin(field.hint) is list:
                value[field.name] = []
    return value


def _required_fields(aspect: str, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """Return what clients require of aspects whose declaration we do not have."""
    if aspect in {CHART_INFO, DASHBOARD_INFO}:
        changes = {"created": stamp, "lastModified": stamp}
        return {"title": "", "description": "", "lastModified": changes}
    return {"primary": False} if aspect == SIBLINGS else {}


def apply_patch(patch: Patch, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `patch` makes of an aspect that is `value`, which is left as it is.

    Entries of arrays keep their order, new ones come last.

    Raises:
        InvalidProposalError: an operation does not fit what is there; the sentence names it.

    Cost: linear in the aspect and the patch.
    """
    base = _copy(value)
    others: list[Any] = []
    if patch.lineage:
        base[FIELD], others = to_tree(base.get(FIELD))
    document = PatchedDocument(base, patch.keys, lambda name: is_list(patch.aspect, name))
    editor = _Editor(document, lenient=patch.lenient)
    for at, operation in enumerate(patch.operations):
        try:
            editor.apply(operation)
        except AbsentError as error:
            raise InvalidProposalError(
                f"patch[{at}].path: {_pointer(operation.path)}: {error}"
            ) from error
    result = document.value()
    if not isinstance(result, dict):
        raise InvalidProposalError("patch: the patched aspect is not an object")
    if patch.lineage and FIELD in result:
        result[FIELD] = to_entries(result[FIELD], others)
    return result


class _Editor:
    """Applies operations to a document, one after the other."""

    def __init__(self, document: PatchedDocument, *, lenient: bool) -> None:
        self._document = document
        self._lenient = lenient
        # Copies of copies would grow for ever.
        self._left_bytes = PATCH_TAKEN_BYTES

    def apply(self, operation: Operation) -> None:
        match operation.op:
            case "add":
                self._document.add(operation.path, _copy(operation.value))
            case "replace":
                self._document.replace(operation.path, _copy(operation.value))
            case "remove":
                if not self._document.remove(operation.path) and not self._lenient:
                    raise AbsentError("no value to remove")
            case "test":
                if not _equal(self._take(operation.path), operation.value):
                    raise AbsentError("the test failed: the value differs")
            case "copy" | "move":
                self._transfer(operation)

    def _transfer(self, operation: Operation) -> None:
        value = self._take(operation.source)
        if operation.op == "move":
            self._document.remove(operation.source)
        self._document.add(operation.path, value)

    def _take(self, path: Path) -> Any:
        value = self._document.get(path)
        self._left_bytes -= len(_encode(value))
        if self._left_bytes < 0:
            raise AbsentError("the values to test, move and copy are too large for one patch")
        return value


def _copy(value: Any) -> Any:
    """Return a copy that shares nothing."""
    return loads(_encode(value))


def _encode(value: Any) -> bytes:
    """Return `value` as JSON; what is nested too deeply to be stored is refused."""
    try:
        return dumps(value)
    except CodecError as error:
        raise InvalidProposalError(f"patch: {error}") from error


def _equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, and neither equals true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _pointer(path: Path) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def to_tree(lineages: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the entries as a tree, and apart from it those that patches cannot address."""
    tree: dict[str, Any] = {}
    others: list[Any] = []
    for entry in lineages if isinstance(lineages, list) else ():
        place = _place(entry)
        if place is None:
            others.append(entry)
            continue
        operation, downstream, query = place
        upstreams = tree.setdefault(operation, {}).setdefault(downstream, {}).setdefault(query, {})
        carried = {name: entry[name] for name in ("confidenceScore", *_TYPES) if name in entry}
        upstreams.update({upstream: dict(carried) for upstream in entry["upstreams"]})
    return tree, others


def _place(entry: Any) -> tuple[str, str, str] | None:
    if not isinstance(entry, dict):
        return None
    endpoints = (entry.get("upstreams"), entry.get("downstreams"))
    names = (entry.get("transformOperation") or _NONE, entry.get("query") or _NONE)
    texts = all(
        isinstance(urns, list) and all(isinstance(u, str) for u in urns) for urns in endpoints
    )
    if not texts or len(entry["downstreams"]) != 1 or not all(isinstance(n, str) for n in names):
        return None
    return names[0], entry["downstreams"][0], names[1]


def to_entries(tree: Any, others: list[Any]) -> list[Any]:
    """Return the entries of a tree, one for each operation, downstream and query, and `others`.

    Raises:
        InvalidProposalError: the patch made something else of the tree.
    """
    if isinstance(tree, list):  # the patch put an array in its place
        return tree
    return others + [
        _entry(operation, downstream, query, upstreams)
        for operation, below in _nodes(tree)
        for downstream, queries in _nodes(below)
        for query, upstreams in _nodes(queries)
        if upstreams
    ]


def _nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(tree, Mapping):
        raise InvalidProposalError(
            f"patch: expected /{FIELD}/<operation>/<downstream>/<query>/<upstream>"
        )
    return iter(tree.items())


def _entry(operation: str, downstream: str, query: str, upstreams: Any) -> dict[str, Any]:
    facts = [fact if isinstance(fact, dict) else {} for _, fact in _nodes(upstreams)]
    scores = [s for fact in facts if isinstance(s := fact.get("confidenceScore"), int | float)]
    entry: dict[str, Any] = {
        "upstreamType": "FIELD_SET",
        "upstreams": list(upstreams),
        "downstreamType": "FIELD",
        "downstreams": [downstream],
        "transformOperation": operation,
        "confidenceScore": min(scores, default=1.0),
    }
    for fact in facts:
        entry |= {name: fact[name] for name in _TYPES if isinstance(fact.get(name), str)}
    return entry | ({"query": query} if query != _NONE else {})
