"""All or none: what one source does not have any more is removed, within limits."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog
from mlcat_ingest.errors import LimitError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import properties_aspect
from mlcat_ingest.pipeline.merge.sources import custom_properties
from mlcat_ingest.pipeline.read.primary_keys import PrimaryKeys
from mlcat_ingest.pipeline.removal.rename import Copier
from mlcat_ingest.pipeline.removal.unlisted import Candidates
from mlcat_ingest.pipeline.removal.withheld import Withheld
from mlcat_ingest.pipeline.report.labels import label_of, with_label
from mlcat_ingest.pipeline.state.memory import PartitionPass
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.recipe.model import LimitsSpec
from mlcat_ingest.sources.base import Capability, Missing, Source

log = logging.getLogger(__name__)

FLOOR: Final = 10
"""So many entities may always be removed, however few there are."""

_AT_ONCE: Final = 500
"""Entities whose records are forgotten together."""


@dataclass(frozen=True, slots=True)
class _Gone:
    part: PartitionPass
    missing: Missing
    label: str | None


class Removal:
    """Finds what to remove after a source was read; used by one thread."""

    def __init__(
        self,
        sink: Catalog,
        tracker: Tracker,
        withheld: Withheld,
        copier: Copier,
        keys: PrimaryKeys,
        note: Callable[[str, str], None],
        *,
        writer: str,
        limits: LimitsSpec,
    ) -> None:
        """Remove what is `withheld`, and what passes did not come upon; `note` tells the report."""
        self._sink = sink
        self._tracker = tracker
        self._withheld = withheld
        self._copier = copier
        self._note = note
        self._max_ratio = limits.max_removed_ratio
        self._candidates = Candidates(sink, tracker, writer, keys)

    def after(self, source: Source[Any], passes: Sequence[PartitionPass]) -> Iterator[Entity]:
        """Yield what is to be removed, now that `passes` read all of `source`.

        Raises:
            LimitError: it would be too many; nothing was yielded. What `Source.read` raises.

        Cost: see `Candidates`; of the source what `Source.missing` asks, and one request for
        each that is removed.
        """
        waiting = self._withheld.urns
        found = self._confirmed(list(self._missing(source, passes, waiting)), passes)
        self._stay_within(passes, len(found) + len(waiting))
        yield from self._withheld.release()
        for start in range(0, len(found), _AT_ONCE):
            yield from self._removed(found[start : start + _AT_ONCE])

    def _removed(self, found: Sequence[_Gone]) -> Iterator[Entity]:
        gone: dict[PartitionPass, list[str]] = {}
        for one in found:
            if one.missing.is_gone() and not self._is_used(one):
                gone.setdefault(one.part, []).append(one.missing.urn)
        for part, urns in gone.items():
            self._tracker.delete(part, urns)
            for urn in urns:
                yield Entity(urn, {STATUS: {"removed": True}})

    def _missing(
        self, source: Source[Any], passes: Sequence[PartitionPass], waiting: Sequence[str]
    ) -> Iterator[_Gone]:
        if Capability.MISSING not in source.capabilities:
            return
        if not (passes and self._tracker.remembers):
            self._note_without_state(source)
            return
        for part in passes:
            if part.finished is None:
                continue
            if part.is_complete:
                unlisted = self._candidates.after_full(part, waiting)
            else:
                # A pass over changes knows only of what it came upon under another name.
                unlisted = self._candidates.read(part, self._tracker.renamed(part))
            for some in unlisted:
                properties = {one.urn: one.properties for one in some}
                for missing in source.missing(part.source, some):
                    yield _Gone(part, missing, label_of(properties.get(missing.urn)))

    def _note_without_state(self, source: Source[Any]) -> None:
        if Capability.FEATURES in source.capabilities and self._sink.keeps:
            self._note("removal_without_state", "nothing is removed without the state database")

    def _confirmed(self, found: Sequence[_Gone], passes: Sequence[PartitionPass]) -> list[_Gone]:
        """Return `found` without the entities that only this pass lacks; those are kept in state.

        They are kept before limits are looked at: an entity that is listed again starts anew.
        """
        confirmed = [one for one in found if not one.missing.second_pass]
        for part in passes:
            if not part.is_complete:
                continue
            absent = [one for one in found if one.part is part and one.missing.second_pass]
            before = self._tracker.absent(part)
            self._tracker.keep_absent(part, [one.missing.urn for one in absent])
            for one in absent:
                if one.missing.urn in before:
                    confirmed.append(one)
                else:
                    about = with_label(one.missing.urn, one.label)
                    self._note("absent_once", f"{about}: goes with the next pass")
        return confirmed

    def _stay_within(self, passes: Sequence[PartitionPass], count: int) -> None:
        if count <= FLOOR:
            return
        total = sum(map(self._candidates.total, passes))
        if count <= self._max_ratio * total:
            return
        raise LimitError(
            f"{count:,} of the {total:,} entities of {', '.join(part.source for part in passes)} "
            f"would be removed, more than limits.max_removed_ratio ({self._max_ratio:g}) "
            "lets a run remove; none of them was",
            hint="see them with `mlcat-ingest plan`; if that is right, raise the limit for one run",
        )

    def _is_used(self, gone: _Gone) -> bool:
        """Return whether a group has to stay for others' models; bring along what was on it."""
        missing = gone.missing
        if missing.moved_to is not None:
            self._copier.copy(missing.urn, missing.moved_to)
        if entity_type_of(missing.urn) != "mlModelGroup":
            return False
        try:
            used = any(
                self._has_foreign(page, gone.part.source, missing.urn)
                for page in self._sink.search.members(missing.urn)
            )
        except CANNOT_ANSWER as error:
            self._note("groups_kept", f"{missing.urn}: its members cannot be listed: {error}")
            return True
        if used:
            log.info("%s stays: models of others are in it", missing.urn)
        return used

    def _has_foreign(self, models: Sequence[str], source: str, group: str) -> bool:
        home = properties_aspect("mlModel") or ""
        stored = self._sink.read_many(models, [home, STATUS])
        for one in stored.values():
            if home not in one or (STATUS in one and one[STATUS].value.get("removed")):
                continue
            properties = one[home].value
            sources = str(custom_properties(properties).get(SOURCE_KEY, "")).split(",")
            if source not in sources and group in (properties.get("groups") or ()):
                return True
        return False
