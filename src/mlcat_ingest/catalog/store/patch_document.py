"""A JSON object under a patch, edited place by place; its arrays may be keyed.

Nothing here knows of aspects or of the store.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str, ...]
KeyPaths: TypeAlias = tuple[Path, ...]
"""The paths to the parts of an entry's key; no parts for an array of texts."""

Place: TypeAlias = tuple[Any, Any]
"""The end of a path: the object, array or keyed array that holds it, and its key there."""

ANY: Final = "*"
"""The part of a path that stands for every key there is."""


class AbsentError(Exception):
    """A path leads to nothing, or to what cannot be edited so; the sentence says which."""


class KeyedArray:
    """An array as a tree of its entries' keys, one level a part; entries keep their order."""

    def __init__(self, items: list[Any], keys: KeyPaths) -> None:
        """Hold `items`; without `keys` they are texts that are keyed by themselves."""
        self._items = items
        self._keys = keys
        self.parts = max(1, len(keys))
        self._tree: dict[str, Any] = {}
        self._next = len(items)
        self._touched = False
        for position, item in enumerate(items):
            self._leaf(self._key_of(item)).append((position, item))

    def items(self) -> list[Any]:
        """Return the entries: those that were there in their order, then the new ones."""
        if not self._touched:
            return self._items
        ordered = sorted(_leaves(self._tree, self.parts), key=lambda pair: pair[0])
        return [item for _, item in ordered]

    def entries(self, prefix: Path) -> Iterator[Any]:
        """Yield the entries whose key begins with `prefix`."""
        return (item for _, item in _leaves(self._tree, self.parts, prefix))

    def touch(self) -> None:
        """Say that an entry was edited from outside."""
        self._touched = True

    def put(self, prefix: Path, value: Any) -> Any:
        """Put one entry under its key, or an array of them in place of all below `prefix`.

        Parts of the key that `prefix` leaves out are read off the entry, and those that the entry
        leaves out are filled in.
        """
        if isinstance(value, list):
            self.remove(prefix)
        for item in value if isinstance(value, list) else [value]:
            self._put_entry(prefix, item)
        return value

    def _put_entry(self, prefix: Path, item: Any) -> None:
        if isinstance(item, dict):
            for path, part in zip(self._keys, prefix, strict=False):
                if len(path) == 1 and part and item.get(path[0]) is None:
                    item[path[0]] = part
        if not self._keys and not isinstance(item, str) and prefix:
            item = prefix[0]  # clients add a text by its key alone
        own = self._key_of(item)
        key = (*prefix, *own[len(prefix) :])
        # An entry may name itself otherwise than its path does: it replaces what has either name.
        before = [*self._leaf(key), *self._leaf(own)]
        position = min((position for position, _ in before), default=self._next)
        self._next += not before
        self._leaf(own).clear()
        self._leaf(key)[:] = [(position, item)]
        self._touched = True

    def remove(self, prefix: Path) -> bool:
        """Take away the entries whose key begins with `prefix`, and say whether any had."""
        removed = False
        for node in list(_nodes(self._tree, prefix[:-1])):
            for part in list(node) if prefix[-1] == ANY else [prefix[-1]]:
                below = node.pop(part, None)
                if below is not None:
                    removed |= any(True for _ in _leaves(below, self.parts - len(prefix)))
        self._touched |= removed
        return removed

    def _key_of(self, item: Any) -> Path:
        if not self._keys:
            return (_text(item),)
        return tuple(_text(_at(item, path)) for path in self._keys)

    def _leaf(self, key: Path) -> list[tuple[int, Any]]:
        node = self._tree
        for part in key[:-1]:
            node = node.setdefault(part, {})
        leaf: list[tuple[int, Any]] = node.setdefault(key[-1], [])
        return leaf


def _nodes(node: Any, prefix: Path) -> Iterator[Any]:
    """Yield the nodes of a tree that `prefix` leads to."""
    if not prefix:
        yield node
        return
    for part in list(node) if prefix[0] == ANY else [prefix[0]]:
        if part in node:
            yield from _nodes(node[part], prefix[1:])


def _leaves(tree: Any, levels: int, prefix: Path = ()) -> Iterator[tuple[int, Any]]:
    for leaf in _nodes(tree, (*prefix, *(ANY,) * (levels - len(prefix)))):
        yield from leaf


def _at(item: Any, path: Path) -> Any:
    for part in path:
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _text(value: Any) -> str:
    """Return the text by which a value serves as a key; "" for what has none."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case dict() if len(value) == 1:  # a union: the value it wraps
            return _text(next(iter(value.values())))
        case _:
            return ""


_NOTHING: Final = object()

_NO_PARTS: Final = "the parent is not an object or array"


class PatchedDocument:
    """An object under a patch. A path through a keyed array has a component for each key part."""

    def __init__(
        self, value: dict[str, Any], keys: Mapping[Path, KeyPaths], is_list: Callable[[str], bool]
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
        for node, key in self._places(path, create=True):
            _put(node, key, _plain(value), insert=True)

    def replace(self, path: Path, value: Any) -> None:
        """Put a copy of `value` in place of what is at `path`.

        Raises:
            AbsentError: nothing is there.
        """
        places = [place for place in self._places(path) if _values(*place)]
        if not places:
            raise AbsentError("no value to replace")
        for node, key in places:
            _put(node, key, _plain(value))

    def remove(self, path: Path) -> bool:
        """Take away what is at `path`, and say whether anything was.

        Here, and only here, `*` stands for every entry of a keyed array.
        """
        try:
            return sum(_remove(*place) for place in self._places(path, many=True)) > 0
        except AbsentError:
            return False

    def get(self, path: Path) -> Any:
        """Return what is at `path`, as plain JSON.

        Raises:
            AbsentError: nothing is there, or more than one thing.
        """
        values = [value for place in self._places(path) for value in _values(*place)]
        if len(values) != 1:
            raise AbsentError("no value" if not values else "more than one value")
        return _plain(values[0])

    def _places(self, path: Path, *, create: bool = False, many: bool = False) -> Iterator[Place]:
        return self._walk(self._holder, (), ("", *path), create=create, many=many)

    def _walk(
        self, node: Any, fields: Path, rest: Path, *, create: bool, many: bool
    ) -> Iterator[Place]:
        while not isinstance(node, KeyedArray):
            here, rest = rest[0], rest[1:]
            if not rest:
                if not isinstance(node, dict | list):
                    raise AbsentError(_NO_PARTS)
                yield node, here
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
    ) -> Iterator[Place]:
        prefix, inner = rest[: array.parts], rest[array.parts :]
        if ANY in prefix and not many:
            raise AbsentError(f"{ANY!r} is only allowed in a remove")
        if not inner:
            yield array, prefix
            return
        array.touch()
        entries = list(array.entries(prefix))
        for entry in entries or ([array.put(prefix, {})] if create else []):
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


def _values(node: Any, key: Any) -> list[Any]:
    """Return the values at the end of a path: of entries, of a position or of a member."""
    if isinstance(node, KeyedArray):
        return list(node.entries(key))
    if isinstance(node, list):
        return [node[_index(node, key)]]
    return [node[key]] if key in node else []


def _put(node: Any, key: Any, value: Any, *, insert: bool = False) -> None:
    if isinstance(node, KeyedArray):
        node.put(key, value)
    elif not isinstance(node, list):
        node[key] = value
    elif not insert:
        node[_index(node, key)] = value
    else:
        node.insert(len(node) if key in {"-", str(len(node))} else _index(node, key), value)


def _remove(node: Any, key: Any) -> bool:
    if isinstance(node, KeyedArray):
        return node.remove(key)
    if isinstance(node, list):
        del node[_index(node, key)]
        return True
    return node.pop(key, _NOTHING) is not _NOTHING


def _index(items: list[Any], part: str) -> int:
    # The length is looked at first: a part may have more digits than can be made a number.
    if part.isascii() and part.isdigit() and len(part) <= len(str(len(items))):
        index = int(part)
        if index < len(items) and str(index) == part:
            return index
    raise AbsentError(f"{part!r} is not an index of an array of length {len(items)}")


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
