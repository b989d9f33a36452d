"""JSON patches (RFC 6902) of aspects: read from their envelope, checked and applied.

DataHub adds to RFC 6902: arrays may be addressed by the key fields of their entries instead of by
position, and `add` makes the parents that are missing. In arrays whose keys the writer gave,
`remove` of an absent entry succeeds. Fine-grained lineage is patched as a tree.
Source: `GenericJsonPatch` and the patch templates of DataHub's metadata model 1.7.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.limits import (
    PATCH_KEYS,
    PATCH_OPERATIONS,
    PATCH_PATH_PARTS,
    PATCH_TAKEN_BYTES,
)
from mlcat_ingest.catalog.schema.values import SYSTEM_ACTOR
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.aspects import (
    CHART_INFO,
    DASHBOARD_INFO,
    DATA_JOB_INPUT_OUTPUT,
    SIBLINGS,
    UPSTREAM_LINEAGE,
)
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.declaration import AUDIT_STAMP, Field, Items, record_named
from mlcat_ingest.metadata.registry import ASPECTS, declared_fields, defaults

Op = Literal["add", "remove", "replace", "test", "move", "copy"]

_OPS: Final = frozenset(get_args(Op))

_ENVELOPE: Final = frozenset({"patch", "arrayPrimaryKeys", "forceGenericPatch"})

FIELD: Final = "fineGrainedLineages"

ASPECTS_WITH_LINEAGE: Final = frozenset({UPSTREAM_LINEAGE, DATA_JOB_INPUT_OUTPUT})

_NONE = "NONE"
_TYPES = ("upstreamType", "downstreamType")

Path: TypeAlias = tuple[str, ...]
KeyPaths: TypeAlias = tuple[Path, ...]
"""The paths to the parts of an entry's key; no parts for an array of texts."""

ArrayKeys: TypeAlias = Mapping[Path, KeyPaths]
"""The key parts of arrays, by the fields that lead to each array."""


class _Operation(NamedTuple):
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
    operations: tuple[_Operation, ...]
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
    spec = ASPECTS.get(aspect)
    if templated and (spec is None or spec.patch_keys is None):
        raise InvalidProposalError(
            f"Patch not supported for aspect with name {aspect}",
            hint="send arrayPrimaryKeys and forceGenericPatch with the patch",
        )
    operations = tuple(_operation(item, f"patch[{at}]") for at, item in enumerate(body))
    return Patch(
        aspect,
        operations,
        _template_keys(aspect) if templated else given,
        lenient=bool(given),
        lineage=templated
        and aspect in ASPECTS_WITH_LINEAGE
        and any(operation.path[:1] == (FIELD,) != operation.path for operation in operations),
    )


def _operation(item: Any, place: str) -> _Operation:
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
    return _Operation(cast("Op", op), path, item.get("value"), source)


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
        if not isinstance(names, list) or not all(isinstance(key, str) for key in names):
            raise InvalidProposalError(f"{place}: expected an array of field names")
        if len(names) > PATCH_KEYS:
            raise InvalidProposalError(f"{place}: more than {PATCH_KEYS} fields")
        keys[(name,)] = tuple(_key_path(key) for key in names)
    return keys


def _key_path(name: str) -> Path:
    """Return where a key field is in an entry; a name with U+241F leads into a nested object."""
    return tuple(name.split("\u241f"))


@cache
def _template_keys(aspect: str) -> ArrayKeys:
    """Return the keys by which a patch without any addresses the arrays of `aspect`."""
    spec = ASPECTS.get(aspect)
    return MappingProxyType(
        {
            tuple(array.split(".")): tuple(_key_path(name) for name in names.split())
            for array, names in ((spec and spec.patch_keys) or {}).items()
        }
    )


@cache
def _is_list(aspect: str, field: str) -> bool:
    """Return whether a field of `aspect` holds an array."""
    declared = declared_fields(aspect).get(field)
    return declared is not None and _takes_list(declared)


def _takes_list(field: Field) -> bool:
    return isinstance(field.type, Items) and field.type.kind == "list"


def blank(aspect: str, now_ms: int) -> dict[str, Any]:
    """Return what a patch of an `aspect` that is not there starts from, as a fresh value.

    These are the fields that the service fills in (maps among them), required arrays without
    entries, and required stamps of this moment.
    """
    stamp = {"time": now_ms, "actor": SYSTEM_ACTOR}
    keyed: dict[str, Any] = {path[0]: [] for path in _template_keys(aspect) if len(path) == 1}
    known = declared_fields(aspect)
    if not known:
        return keyed | _required_fields(aspect, stamp)
    value = defaults(aspect) | {name: array for name, array in keyed.items() if name in known}
    for field in known.values():
        if field.required and field.name not in value:
            if field.type is record_named(AUDIT_STAMP):
                value[field.name] = stamp
            elif _takes_list(field):
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

    Cost: linear in the aspect and the patch; a `*` or a part of a key costs the array's length.
    """
    base = _copy(value)
    others: list[Any] = []
    if patch.lineage:
        base[FIELD], others = _to_tree(base.get(FIELD))
    document = _Document(patch, base)
    for at, operation in enumerate(patch.operations):
        try:
            document.apply(operation)
        except _AbsentError as error:
            raise InvalidProposalError(
                f"patch[{at}].path: {_pointer(operation.path)}: {error}"
            ) from error
    result = _plain(document.value)
    if not isinstance(result, dict):
        raise InvalidProposalError("patch: the patched aspect is not an object")
    if patch.lineage and FIELD in result:
        result[FIELD] = _to_entries(result[FIELD], others)
    return result


_ANY: Final = "*"
_NO_PARTS: Final = "the parent is not an object or array"


class _AbsentError(Exception):
    """A path leads to nothing, or to what cannot be edited so; the sentence says which."""


class _Entries:
    """A keyed array: its entries by the parts of their keys."""

    def __init__(self, keys: KeyPaths, items: Iterable[Any] = ()) -> None:
        """Hold `items`; without `keys` these are texts that are keyed by themselves."""
        self._keys = keys
        self.parts = max(1, len(keys))
        # Each with its place in the array. Several entries may have one key.
        self._held: dict[Path, list[tuple[int, Any]]] = {}
        self._next = 0
        for item in items:
            self._held.setdefault(self._key_of(item), []).append((self._next, item))
            self._next += 1

    def items(self) -> list[Any]:
        """Return the entries in the order of the array, new ones last."""
        entries = [place for places in self._held.values() for place in places]
        return [item for _, item in sorted(entries, key=itemgetter(0))]

    def values(self, prefix: Path) -> list[Any]:
        """Return the entries whose keys begin with `prefix`."""
        return [item for key in self._matching(prefix) for _, item in self._held[key]]

    def put(self, prefix: Path, entry: Any) -> Any:
        """Put an entry in the place of those with its key, or last, and return it.

        Parts of the key that the entry leaves out are filled in from the path.
        """
        if isinstance(entry, dict):
            for path, part in zip(self._keys, prefix, strict=False):
                if len(path) == 1 and part and entry.get(path[0]) is None:
                    entry[path[0]] = part
        if not self._keys and not isinstance(entry, str) and prefix:
            entry = prefix[0]  # clients add a text by its key alone
        key = self._key_of(entry)
        before = self._held.get(key)
        self._held[key] = [(before[0][0] if before else self._next, entry)]
        self._next += 1
        return entry

    def remove(self, prefix: Path) -> int:
        """Take away the entries whose keys begin with `prefix`; return how many those were."""
        return sum(len(self._held.pop(key)) for key in self._matching(prefix))

    def _matching(self, prefix: Path) -> list[Path]:
        """Return the keys that begin with `prefix`, in which `*` is any part."""
        if _ANY not in prefix and len(prefix) == self.parts:
            return [prefix] if prefix in self._held else []
        wanted = [(at, part) for at, part in enumerate(prefix) if part != _ANY]
        return [key for key in self._held if all(key[at] == part for at, part in wanted)]

    def _key_of(self, entry: Any) -> Path:
        return tuple(_part(entry, path) for path in self._keys or ((),))


class _PathEnd(NamedTuple):
    """The end of a path: what holds it, its key there, and the fields that lead to its value."""

    holder: Any
    key: Any
    fields: Path

    def values(self) -> list[Any]:
        if isinstance(self.holder, _Entries):
            return self.holder.values(self.key)
        if isinstance(self.holder, list):
            return [self.holder[_index(self.holder, self.key)]]
        return [self.holder[self.key]] if self.key in self.holder else []

    def put(self, value: Any, *, insert: bool) -> None:
        if isinstance(self.holder, _Entries):
            self.holder.put(self.key, value)
        elif isinstance(self.holder, dict):
            self.holder[self.key] = value
        elif not insert:
            self.holder[_index(self.holder, self.key)] = value
        else:
            size = len(self.holder)
            is_end = self.key in {"-", str(size)}
            self.holder.insert(size if is_end else _index(self.holder, self.key), value)

    def remove(self) -> int:
        """Take away what is here, and return how many values that were."""
        if isinstance(self.holder, _Entries):
            return self.holder.remove(self.key)
        gone = len(self.values())
        if gone:
            key = self.key if isinstance(self.holder, dict) else int(self.key)
            del self.holder[key]
        return gone


class _Document:
    """An aspect under a patch; its keyed arrays are `_Entries`."""

    def __init__(self, patch: Patch, value: dict[str, Any]) -> None:
        self._patch = patch
        self.value = self._keyed(value, ())
        # Copies of copies would grow for ever.
        self._left_bytes = PATCH_TAKEN_BYTES

    def apply(self, operation: _Operation) -> None:
        """Apply one operation.

        Raises:
            _AbsentError: it does not fit what is there.
        """
        match operation.op:
            case "add":
                self._add(operation.path, operation.value)
            case "replace":
                self._replace(operation.path, operation.value)
            case "remove":
                if not self._remove(operation.path) and not self._patch.lenient:
                    raise _AbsentError("no value to remove")
            case "test":
                if not _equal(self._take(operation.path), operation.value):
                    raise _AbsentError("the test failed: the value differs")
            case "copy" | "move":
                self._transfer(operation)

    def _transfer(self, operation: _Operation) -> None:
        value = self._take(operation.source)
        if operation.op == "move":
            self._remove(operation.source)
        self._add(operation.path, value)

    def _add(self, path: Path, value: Any) -> None:
        if not path:
            self.value = self._keyed(_copy(value), ())
        for place in self._places(path, create=True):
            place.put(self._keyed(_copy(value), place.fields), insert=True)

    def _replace(self, path: Path, value: Any) -> None:
        places = [place for place in self._places(path) if place.values()]
        if not places and path:
            raise _AbsentError("no value to replace")
        if not path:
            self.value = self._keyed(_copy(value), ())
        for place in places:
            place.put(self._keyed(_copy(value), place.fields), insert=False)

    def _remove(self, path: Path) -> bool:
        try:
            return sum(place.remove() for place in self._places(path, removes=True)) > 0
        except _AbsentError:
            return False

    def _take(self, path: Path) -> Any:
        values = [value for place in self._places(path) for value in place.values()]
        if len(values) != 1 and path:
            raise _AbsentError("no value" if not values else "more than one value")
        value = _plain(values[0] if path else self.value)
        self._left_bytes -= len(_encode(value))
        if self._left_bytes < 0:
            raise _AbsentError("the values to test, move and copy are too large for one patch")
        return value

    def _places(
        self, path: Path, *, create: bool = False, removes: bool = False
    ) -> Iterator[_PathEnd]:
        """Yield the places where a path ends; only one that removes may have a `*`."""
        if path:
            yield from self._walk(self.value, (), path, create=create, removes=removes)

    def _walk(
        self, node: Any, fields: Path, rest: Path, *, create: bool, removes: bool
    ) -> Iterator[_PathEnd]:
        if isinstance(node, _Entries):
            here, rest = rest[: node.parts], rest[node.parts :]
            if _ANY in here and not removes:
                raise _AbsentError(f"{_ANY!r} is only allowed in a remove")
            place = _PathEnd(node, here, fields)
            children = node.values(here) if rest else []
            if create and rest and not children:
                children = [node.put(here, {})]
        elif isinstance(node, dict | list):
            fields = (*fields, rest[0]) if isinstance(node, dict) else fields
            place, rest = _PathEnd(node, rest[0], fields), rest[1:]
            children = self._children(place, rest[0], create=create) if rest else []
        else:
            raise _AbsentError(_NO_PARTS)
        if not rest:
            yield place
        for child in children:
            yield from self._walk(child, fields, rest, create=create, removes=removes)

    def _children(self, place: _PathEnd, part: str, *, create: bool) -> list[Any]:
        """Return what is at a place; where nothing is, what `part` can be put into."""
        if create and isinstance(place.holder, dict) and place.holder.get(place.key) is None:
            keys = self._patch.keys.get(place.fields)
            is_array = part == "-" or (
                len(place.fields) == 1 and _is_list(self._patch.aspect, place.fields[0])
            )
            empty: Any = [] if is_array else {}
            place.holder[place.key] = empty if keys is None else _Entries(keys)
        return [child for child in place.values() if child is not None]

    def _keyed(self, node: Any, fields: Path) -> Any:
        """Return a part of the aspect with its keyed arrays as such; `fields` lead to it."""
        if not self._patch.keys:
            return node
        if isinstance(node, dict):
            return {name: self._keyed(child, (*fields, name)) for name, child in node.items()}
        keys = self._patch.keys.get(fields)
        if keys is None or not isinstance(node, list):
            return node
        return _Entries(keys, (self._keyed(entry, fields) for entry in node))


def _plain(node: Any) -> Any:
    """Return a part of the aspect as plain JSON."""
    if isinstance(node, _Entries):
        return [_plain(entry) for entry in node.items()]
    if isinstance(node, dict):
        return {name: _plain(child) for name, child in node.items()}
    return [_plain(child) for child in node] if isinstance(node, list) else node


def _part(entry: Any, path: Path) -> str:
    """Return a part of the key of an entry as text; "" for what has none."""
    for name in path:
        entry = entry.get(name) if isinstance(entry, dict) else None
    if isinstance(entry, dict) and len(entry) == 1:  # a union: the value it wraps
        entry = next(iter(entry.values()))
    match entry:
        case str():
            return entry
        case bool():
            return str(entry).lower()
        case int() | float():
            return str(entry)
        case _:
            return ""


def _index(items: list[Any], part: str) -> int:
    # The length is looked at first: a part may have more digits than can be made a number.
    if part.isascii() and part.isdigit() and len(part) <= len(str(len(items))):
        index = int(part)
        if index < len(items) and str(index) == part:
            return index
    raise _AbsentError(f"{part!r} is not an index of an array of length {len(items)}")


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


def _to_tree(lineages: Any) -> tuple[dict[str, Any], list[Any]]:
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
    match entry:
        case {"upstreams": [*upstreams], "downstreams": [str(downstream)]}:
            names = (entry.get("transformOperation") or _NONE, entry.get("query") or _NONE)
            if all(isinstance(text, str) for text in (*upstreams, *names)):
                return names[0], downstream, names[1]
        case _:
            pass
    return None


def _to_entries(tree: Any, others: list[Any]) -> list[Any]:
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
