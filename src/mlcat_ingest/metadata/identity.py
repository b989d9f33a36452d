"""Identity: what makes two objects, two stores or two writers the same. Pure, without I/O.

An id, an address and a name only say where something stands: a database gives a free number again,
a backup that is restored repeats them, a name can be taken anew once its object is deleted, and
another team may have the same one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.mlflow_keys import ARTIFACT_SOURCE, RUN_ID
from mlcat_ingest.metadata.proposal import Aspect, Note, custom_properties

_CREATED: Final = "created"
_ORIGINS: Final = (RUN_ID, ARTIFACT_SOURCE)

ABOUT_MANY: Final = frozenset({"other_writer", "same_store", "type_left_out"})
"""Kinds of notes that are one sentence about many entities."""


def is_another(before: Aspect, now: Aspect) -> bool:
    """Return whether two properties aspects of one id, or of one name, are of two objects.

    The times of creation decide where both are known. Where one is not, the run and the source that
    an object was made from do, which it keeps for life. What only one of them tells decides
    nothing.
    """
    times = _created_ms(before), _created_ms(now)
    if None not in times:
        return times[0] != times[1]
    customs = custom_properties(before), custom_properties(now)
    pairs = [tuple(custom.get(key) for custom in customs) for key in _ORIGINS]
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def schema_hash(fields: object) -> str:
    """Return the `hash` of a schema of a dataset that we write; another writer's differs."""
    return f"mlcat:{content_hash(fields)}"


def _created_ms(properties: Aspect) -> int | None:
    stamp = properties.get(_CREATED)
    time_ms = stamp.get("time") if isinstance(stamp, dict) else None
    return time_ms if isinstance(time_ms, int) and time_ms else None


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a base: the name of a recipe, and the id of the state that it runs with.

    `adopted` are the ids of states that this one took over. A writer without an id, such as a hook
    away from the state, merges every base of its name as its own, and removes nothing.
    """

    name: str
    id: str = ""
    adopted: frozenset[str] = frozenset()

    def is_own(self, base_id: str) -> bool:
        """Return whether what a base of this name and id has was written by this writer."""
        return not base_id or not self.id or self.may_remove(base_id)

    def may_remove(self, base_id: str) -> bool:
        """Return whether an entity with a base of this name and id is this writer's to remove."""
        return bool(base_id) and (base_id == self.id or base_id in self.adopted)


def other_writer_note(writer: Writer, base_id: str) -> Note:
    """Return the note about an entity whose base of the writer's name is another state's."""
    return Note(
        "other_writer",
        f"written under the name {writer.name!r} by another state, writer id {base_id}: their "
        "entries are kept, and none of them is removed; if that state is lost, run once with "
        "--adopt SINCE; if runs begin without a state, set `writer_id`; if it is another recipe, "
        "change the `name` of one",
    )


def same_store_note(recipes: Iterable[str], source: str) -> Note:
    """Return the note about an entity that other recipes wrote, of a store with the same id."""
    names = ", ".join(map(repr, sorted(recipes)))
    return Note(
        "same_store",
        f"written before by recipe {names} from {source}: if this store is a copy of that one, set "
        "`instance` or `server_id`; if it is the same, a removal deletes only what this recipe "
        "wrote",
    )
