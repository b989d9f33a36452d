"""Values of Feast's messages as texts of the catalog's custom properties."""

from collections.abc import Mapping
from typing import Any, Final

PREFIX: Final = "feast."

_INTERNAL_TAGS: Final = ("feast:", "feast.connection-ref.")
"""How tags begin in which Feast keeps what is its own: schemas, and where credentials are."""


def properties(**texts: str | bool | None) -> dict[str, str]:
    """Return custom properties for what is known, by names of their own."""
    return {
        f"{PREFIX}{name}": str(text).lower() if isinstance(text, bool) else text
        for name, text in texts.items()
        if text not in {None, ""}
    }


def tags(tagged: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that people gave."""
    return {key: text for key, text in tagged.items() if key and not key.startswith(_INTERNAL_TAGS)}


def time(holder: Any, field: str) -> str | None:
    """Return a `Timestamp` field as ISO 8601 in UTC, None where it is unset or out of bounds."""
    if not holder.HasField(field):
        return None
    try:
        return str(getattr(holder, field).ToJsonString())
    except (ValueError, OverflowError):
        return None


def seconds(duration: Any) -> str | None:
    """Return a `Duration` in seconds, None for none."""
    total = duration.seconds + duration.nanos / 1e9
    return f"{total:g}" if total else None
