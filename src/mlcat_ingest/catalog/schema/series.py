"""Timeseries aspects: their names, and the identity of one event within its series."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.metadata.codec import canonical
from mlcat_ingest.metadata.registry import ASPECTS

_MOST_MS: Final = 2**63

# Two events of one moment are the same event, written again, if these are equal.
_IDENTITY: Final = ("messageId", "eventGranularity", "partitionSpec", "status", "operationType")


class Moment(NamedTuple):
    """The identity of an event in its series: its time, and further fields that tell it apart."""

    timestamp_ms: int
    identity: str


def is_series(aspect: str) -> bool:
    """Return whether a known aspect is a series of events."""
    spec = ASPECTS.get(aspect)
    return spec is not None and spec.timeseries


def moment_of(aspect: str, value: Mapping[str, Any]) -> Moment | None:
    """Return where an event stands in its series; None for an aspect that is none.

    An aspect that nothing is known of is a series if it has a `timestampMillis`, which all
    timeseries aspects have in common.

    Raises:
        InvalidProposalError: the event has no time.
    """
    if not is_series(aspect) and (aspect in ASPECTS or "timestampMillis" not in value):
        return None
    timestamp_ms = value.get("timestampMillis")
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise InvalidProposalError(f"{aspect}: timestampMillis must be an integer")
    if not -_MOST_MS <= timestamp_ms < _MOST_MS:
        raise InvalidProposalError(f"{aspect}: timestampMillis must fit into 64 bits")
    known_by = {name: value[name] for name in _IDENTITY if value.get(name) is not None}
    return Moment(timestamp_ms, canonical(known_by).decode() if known_by else "")
