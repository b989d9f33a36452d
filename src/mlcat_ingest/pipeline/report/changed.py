"""Which groups changed in a run: those that were written, or a member of which was."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import MergedEntity
from mlcat_ingest.pipeline.report.delivered import Delivered

MOST: Final = 100
"""How many changed groups a report names."""

_MEMBER, _MEMBERSHIPS = "mlModel", ML_MODEL_PROPERTIES


class ChangedGroups:
    """Counts changed groups and names the first of them; not for several threads at once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._urns: set[str] = set()
        # Of those that are not named a hash is enough to count none twice.
        self._hashes: set[int] = set()

    def add(self, delivered: Iterable[Delivered]) -> None:
        """Add the groups of what the catalog took."""
        for one in delivered:
            if not one.refusals:
                for urn in _groups(one.merged):
                    self._hashes.add(hash(urn))
                    if len(self._urns) < MOST:
                        self._urns.add(urn)

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._hashes)

    @property
    def urns(self) -> tuple[str, ...]:
        """The first of them, sorted."""
        return tuple(sorted(self._urns))


def _groups(merged: MergedEntity) -> Iterator[str]:
    kind = entity_type_of(merged.urn)
    if kind == "mlModelGroup":
        yield merged.urn
    elif kind == _MEMBER:
        yield from _memberships(merged.entity.aspects.get(_MEMBERSHIPS))
        # A run that is gone, or has moved, leaves a group.
        before = merged.stored.get(_MEMBERSHIPS)
        if before is not None:
            yield from _memberships(before.value)


def _memberships(properties: Any) -> Iterable[str]:
    return (properties or {}).get("groups") or ()
