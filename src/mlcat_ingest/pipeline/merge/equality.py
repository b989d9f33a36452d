"""Equality as JSON sees it."""

from typing import Any, Final

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical

LISTS: Final = (list, tuple)
COLLECTIONS: Final = (dict, list, tuple)
"""What JSON writes as lists, and as anything with parts; asked several times a field."""


def same_json(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: 1 equals 1.0, and neither equals true."""
    if left != right:
        return False
    if isinstance(left, str):
        return True
    try:
        if canonical(left) == canonical(right):
            return True
    except CodecError:
        pass  # a number that has no JSON form here still compares
    return _same_kinds(left, right)


def _same_kinds(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return all(_same_kinds(value, right[key]) for key, value in left.items())
    if isinstance(left, LISTS):
        return all(map(_same_kinds, left, right))
    return isinstance(left, bool) == isinstance(right, bool)
