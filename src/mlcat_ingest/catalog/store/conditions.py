"""What a write meets, and whether the write may go on from there."""

from typing import Final, NamedTuple

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.rows import AspectRow

_ABSENT: Final = "-1"


class ExistingEntity(NamedTuple):
    """An entity that exists; one that `is_new` was made by the same batch."""

    id: int
    name: str | None
    created_ms: int
    is_new: bool = False


class State(NamedTuple):
    """What a write meets: version 0 where there is nothing, and then no time of change either.

    A `default` is there without being stored.
    """

    row: AspectRow | None = None
    version: int = 0
    modified_ms: int | None = None
    default: str | None = None

    @property
    def text(self) -> str | None:
        """The value that reads show, as JSON text; None where there is none."""
        return self.row.value if self.row is not None else self.default


def refusal_of(write: Write, known: ExistingEntity | None, state: State) -> str | None:
    """Return why `write` may not go on from `state`; None if it may."""
    if write.change == "RESTATE":
        return None
    if (refusal := _unmet(write, state)) is not None:
        return refusal
    if write.change == "CREATE" and state.version and state.default is None:
        return "Cannot perform CREATE since the aspect already exists."
    # An entity that this very batch made is not in the way of its own CREATE_ENTITY.
    if write.change == "CREATE_ENTITY" and known is not None and not known.is_new:
        return "Cannot perform CREATE_ENTITY if not exists since the entity key already exists."
    return None


def _unmet(write: Write, state: State) -> str | None:
    """Return which condition of `write` does not hold, if one does not."""
    expected, actual = write.expected_version, str(state.version or _ABSENT)
    # A default may be compared with as what it reads like, and as the nothing that is stored.
    if expected not in {None, actual, _ABSENT if state.default is not None else actual}:
        return f"Expected version {expected}, actual version {actual}"
    since, until = write.if_modified_since_ms, write.if_unmodified_since_ms
    modified_ms = state.modified_ms
    if since is not None and (modified_ms is None or modified_ms <= since):
        return f"Expected a change after {since}, last modified {modified_ms} (epoch ms)"
    if until is not None and modified_ms is not None and modified_ms > until:
        return f"Expected no change after {until}, last modified {modified_ms} (epoch ms)"
    return None
