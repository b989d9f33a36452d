"""A JSON object that a patch edits, place by place.

Nothing here knows of aspects or of the store.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mlcat_ingest.catalog.store.patch.keyed import (
    ANY,
    AbsentError,
    KeyedArray,
    KeyPaths,
    Path,
)

_NOTHING: Final = object()

_NO_PARTS: Final = "leads through a value that has no parts"


class _PathEnd(Protocol):
    """Where a path ends: a member of an object, a position of an array, entries of a keyed one."""

    def values(self) -> Iterator[Any]: ...

    def add(self, value: Any) -> None: ...

    def replace(self, value: Any) -> None: ...

    def remove(self) -> bool: ...


class PatchedDocument:
    """An object under a patch. A path through a keyed array has a component for each key part."""

    def __init__(
        self,
        value: dict[str, Any],
        keys: Mapping[Path, KeyPaths],
        is_list: Callable[[str], bool],
    ) -> None:
        """Edit `value` itself.

        `keys` tells the key parts of arrays, by the fields that lead to each, entries passed
        over. `is_list` says whether a field of the object holds an array.
        """
        self._holder: dict[str, Any] = {"": value}
        self._keys = keys
        self._is_list = is_list

    def value(self) -> Any:
        """Return the document as plain JSON."""
        return _plain(self._holder[""])

    def add(self, path: Path, value: Any) -> None:
        """Put a copy of `value` at `path`, in place of what is there; missing parents are made.

        Raises:
            AbsentError: there is something on the way that has no parts.
        """
        for place in self._places(path, create=True):
            place.add(_plain(value))

    def replace(self, path: Path, value: Any) -> None:
        """Put a copy of `value` in place of what is at `path`.

        Raises:
            AbsentError: nothing is there.
        """
        held = [place for place in self._places(path) if _holds(place)]
        if not held:
            raise AbsentError("there is nothing to replace")
        for place in held:
            place.replace(_plain(value))

    def remove(self, path: Path) -> bool:
        """Take away what is at `path`, and say whether anything was.

        Here, and only here, `*` stands for every entry of a keyed array.
        """
        try:
            return sum(place.remove() for place in self._places(path, many=True)) > 0
        except AbsentError:
            return False

    def get(self, path: Path) -> Any:
        """Return what is at `path`, as plain JSON.

        Raises:
            AbsentError: nothing is there, or more than one thing.
        """
        found = [value for place in self._places(path) for value in place.values()]
        if len(found) != 1:
            raise AbsentError("there is nothing" if not found else "there is more than one thing")
        return _plain(found[0])

    def _places(
        self, path: Path, *, create: bool = False, many: bool = False
    ) -> Iterator[_PathEnd]:
        return self._walk(self._holder, (), ("", *path), create=create, many=many)

    def _walk(
        self, node: Any, fields: Path, rest: Path, *, create: bool, many: bool
    ) -> Iterator[_PathEnd]:
        while not isinstance(node, KeyedArray):
            here, rest = rest[0], rest[1:]
            if not rest:
                yield _place(node, here)
                return
            if isinstance(node, dict):
                fields = (*fields, here) if node is not self._holder else ()
                if create and node.get(here) is None:
                    node[here] = self._container(fields, rest[0])
            node = self._child(node, here, fields)
            if node is None:
                return
        yield from self._walk_entries(node, fields, rest, create=create, many=many)

    def _walk_entries(
        self, array: KeyedArray, fields: Path, rest: Path, *, create: bool, many: bool
    ) -> Iterator[_PathEnd]:
        prefix, inner = rest[: array.parts], rest[array.parts :]
        if ANY in prefix and not many:
            raise AbsentError(f"{ANY!r} stands for what can be removed")
        if not inner:
            yield _Entries(array, prefix)
            return
        for entry in _editable(array, prefix, create=create):
            yield from self._walk(entry, fields, inner, create=create, many=many)

    def _container(self, fields: Path, part: str) -> Any:
        """Return what to make where `fields` leads and nothing is, for `part` to be put into."""
        as_list = part == "-" or fields in self._keys
        return [] if as_list or (len(fields) == 1 and self._is_list(fields[0])) else {}

    def _child(self, node: Any, here: str, fields: Path) -> Any:
        if isinstance(node, list):
            return node[_index(node, here)]
        if not isinstance(node, dict):
            raise AbsentError(_NO_PARTS)
        child = node.get(here)
        if fields in self._keys and isinstance(child, list):
            child = node[here] = KeyedArray(child, self._keys[fields])
        return child


def _editable(array: KeyedArray, prefix: Path, *, create: bool) -> list[Any]:
    """Return the entries below `prefix`, which are about to be edited."""
    array.touch()
    entries = list(array.entries(prefix))
    return entries if entries or not create else [array.put(prefix, {})]


def _place(node: Any, part: str) -> _PathEnd:
    match node:
        case dict():
            return _Member(node, part)
        case list():
            return _Position(node, part)
        case _:
            raise AbsentError(_NO_PARTS)


@dataclass(frozen=True, slots=True)
class _Member:
    node: dict[str, Any]
    name: str

    def values(self) -> Iterator[Any]:
        if self.name in self.node:
            yield self.node[self.name]

    def add(self, value: Any) -> None:
        self.node[self.name] = value

    replace = add

    def remove(self) -> bool:
        return self.node.pop(self.name, _NOTHING) is not _NOTHING


@dataclass(frozen=True, slots=True)
class _Position:
    items: list[Any]
    part: str

    def values(self) -> Iterator[Any]:
        yield self.items[_index(self.items, self.part)]

    def add(self, value: Any) -> None:
        at_end = self.part in {"-", str(len(self.items))}
        self.items.insert(len(self.items) if at_end else _index(self.items, self.part), value)

    def replace(self, value: Any) -> None:
        self.items[_index(self.items, self.part)] = value

    def remove(self) -> bool:
        del self.items[_index(self.items, self.part)]
        return True


@dataclass(frozen=True, slots=True)
class _Entries:
    array: KeyedArray
    prefix: Path

    def values(self) -> Iterator[Any]:
        return self.array.entries(self.prefix)

    def add(self, value: Any) -> None:
        self.array.put(self.prefix, value)

    replace = add

    def remove(self) -> bool:
        return self.array.remove(self.prefix)


def _holds(place: _PathEnd) -> bool:
    return next(place.values(), _NOTHING) is not _NOTHING


def _index(items: list[Any], part: str) -> int:
    # The length is looked at first: a part may have more digits than can be made a number.
    if part.isascii() and part.isdigit() and len(part) <= len(str(len(items))):
        index = int(part)
        if index < len(items) and str(index) == part:
            return index
    raise AbsentError(f"{part!r} is no position in an array of {len(items)}")


def _plain(node: Any) -> Any:
    match node:
        case KeyedArray():
            return [_plain(item) for item in node.items()]
        case dict():
            return {key: _plain(value) for key, value in node.items()}
        case list():
            return [_plain(item) for item in node]
        case _:
            return node
