"""Arrays whose entries a patch finds by the texts in their key fields."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str, ...]
KeyPaths: TypeAlias = tuple[Path, ...]
"""Where the parts of an entry's key are; no parts for an array of texts."""

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
            for item in value:
                self._put_entry(prefix, item)
        else:
            self._put_entry(prefix, value)
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
                    gone = any(True for _ in _leaves(below, self.parts - len(prefix)))
                    removed = removed or gone
        self._touched = self._touched or removed
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
