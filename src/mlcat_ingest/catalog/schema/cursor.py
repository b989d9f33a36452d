"""Where a scroll goes on: the place of the last thing seen, as an opaque text."""

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical, loads


def write_cursor(asked: object, place: Sequence[Any]) -> str:
    """Return the text that stands for `place`, a list of sort values, in what was `asked`."""
    return base64.urlsafe_b64encode(canonical([_mark(asked), *place])).decode()


def read_cursor(asked: object, text: str, values: int) -> list[Any]:
    """Return the place that `text` stands for in what is `asked`: so many values.

    Raises:
        BadRequestError: it is no cursor, or that of another question.
    """
    try:
        place = loads(base64.b64decode(text, altchars=b"-_", validate=True))
    except (CodecError, binascii.Error, ValueError) as error:
        raise BadRequestError("the scroll id is not one that a search gave") from error
    if not isinstance(place, list) or len(place) != values + 1 or place[0] != _mark(asked):
        raise BadRequestError("the scroll id belongs to another search")
    if not all(map(_is_sortable, place)):
        raise BadRequestError("the scroll id is not one that a search gave")
    return place[1:]


def _is_sortable(value: Any) -> bool:
    """Return whether a column can be compared with `value`; anybody may make up a scroll id."""
    match value:
        case None | str() | float():
            return True
        case bool():
            return False
        case int():
            return -(2**63) <= value < 2**63
        case _:
            return False


def _mark(asked: object) -> int:
    """Return a number that other questions do not share, or hardly ever."""
    return zlib.crc32(repr(asked).encode("utf-8", "replace"))
