"""Whether the catalog checks the version that a write names, and what to do where it does not."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from mlcat_ingest.errors import AspectChangedError
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.pipeline.merge import (
    IF_VERSION_MATCH,
    Merge,
    MergedEntity,
    rebase_aspect,
    with_claims_of,
)
from mlcat_ingest.pipeline.merge.equality import same_json
from mlcat_ingest.pipeline.stored import read_stored
from mlcat_ingest.pipeline.tally import Tally
from mlcat_ingest.sinks.base import Sink, StoredAspect, StoredEntity

NO_SUCH_VERSION: Final = "999999999"
"""A version that nothing has: who takes a write under this condition checks none."""

MAX_VERSIONS: Final = 20
"""Most versions of one aspect that are read to find out what a write of ours went over."""


_Known = Literal["checked", "ignored", "none"]
"""Versions that a write names are checked, or not; or the sink holds nothing and has none."""


class Versions:
    """Learns from the run's first real write whether conditions hold. Safe for several threads."""

    def __init__(self, sink: Sink, merge: Merge, tally: Tally) -> None:
        """Ask `sink` with the first write, if it holds anything that a version could be of."""
        self._sink = sink
        self._merge = merge
        self._tally = tally
        self._lock = threading.Lock()
        self._known: _Known | None = None

    def learn(self, batch: Sequence[MergedEntity]) -> None:
        """Find out whether versions are checked, if that is not known yet, with a proposal of ours.

        Refused: they are, and it is sent again rightly with all the others. Accepted: it is
        written, and they are not.

        Cost: one request in a run; the other workers wait for its reply.
        """
        with self._lock:
            if self._known is None and self._sink.address() is None:
                self._known = "none"
            probe = _probe(batch) if self._known is None else None
            if probe is None:
                return
            refused = self._sink.write([probe])
            if not refused:
                self._known = "ignored"
            elif isinstance(refused[0], AspectChangedError):
                self._known = "checked"
            # Refused for what it says: the next batch tells.

    def conditioned(self, proposals: Sequence[Proposal]) -> Sequence[Proposal]:
        """Return `proposals`, without their conditions where these are known not to be checked.

        Some services make something else of a condition that they do not know.
        """
        if self._known not in {"ignored", "none"}:
            return proposals
        return [one if one.headers is None else replace(one, headers=None) for one in proposals]

    def overtaken(self, arrived: Sequence[MergedEntity]) -> list[MergedEntity]:
        """Return those of `arrived` that have to be written again, merged anew.

        Where versions are not checked, each write should have made the one after the version that
        was read. Where there are more, somebody wrote at the same time; what a write of ours went
        over comes from the version history, and is put back.

        Cost: where versions are not checked, one read an entity type, and one for each version
        that somebody else made.
        """
        if self._known == "none":
            return []
        if self._known != "ignored":
            self._tally.unverified(sum(map(_is_unconditional, arrived)))
            return []
        stored = read_stored(self._sink, [one.entity for one in arrived])
        again = []
        for one in arrived:
            now = stored.get(one.urn, {})
            put_back = self._put_back(one, now)
            if put_back is not None:
                again.append(self._merged_anew(one, {**now, **put_back}, put_back))
        self._tally.conflicts(len(again))
        return [one for one in again if one.proposals]

    def _put_back(self, one: MergedEntity, now: StoredEntity) -> Mapping[str, StoredAspect] | None:
        """Return aspects with what went under in them again; None where only we have written."""
        put_back: dict[str, StoredAspect] = {}
        first = _read_first(one)
        alone = verified = True
        for proposal in one.proposals:
            name = proposal.aspect_name
            before, after = one.stored.get(name), now.get(name)
            read, found = _number(before), _number(after)
            if read is None or found is None:
                verified = False
            elif after is not None and found > read + 1:
                alone = False
                between = self._between(proposal, read + 1, found)
                verified &= between is not None
                theirs = _of_others(proposal, [*(between or ()), after.value])
                if theirs:
                    value = rebase_aspect(name, _value(first.get(name)), theirs, after.value)
                    put_back[name] = StoredAspect(value, after.version)
        self._tally.unverified(not verified)
        return None if alone else put_back

    def _between(self, proposal: Proposal, first: int, last: int) -> list[Aspect] | None:
        """Return the versions from `first` to before `last`, None where one is not kept."""
        values = []
        for number in range(max(first, last - MAX_VERSIONS), last):
            value = self._sink.read_version(proposal.entity_urn, proposal.aspect_name, number)
            if value is None:
                return None
            values.append(value)
        return values

    def _merged_anew(
        self, one: MergedEntity, stored: StoredEntity, put_back: Mapping[str, StoredAspect]
    ) -> MergedEntity:
        merged = self._merge(one.entity, with_claims_of(one, stored))
        said = {proposal.aspect_name for proposal in merged.proposals}
        restored = [
            Proposal(one.urn, name, aspect.value)
            for name, aspect in put_back.items()
            if name not in said
        ]
        return replace(
            merged,
            outcome=one.outcome,
            proposals=(*restored, *merged.proposals),
            read_first=_read_first(one),
        )


def _probe(batch: Sequence[MergedEntity]) -> Proposal | None:
    """Return a proposal of `batch` under a condition that cannot hold, None where none will do."""
    # Best one that is all there is to write of its entity: the base should not come later.
    for one in sorted(batch, key=lambda one: len(one.proposals)):
        first = one.proposals[0]
        if first.headers and first.change_type != "DELETE":
            return replace(first, headers={IF_VERSION_MATCH: NO_SUCH_VERSION})
    return None


def _is_unconditional(one: MergedEntity) -> bool:
    return any(proposal.headers is None for proposal in one.proposals)


def _number(stored: StoredAspect | None) -> int | None:
    """Return the version of a stored aspect as a number, 0 for none, None for one not told."""
    if stored is None:
        return 0
    return int(stored.version) if stored.version and stored.version.isdecimal() else None


def _value(stored: StoredAspect | None) -> Aspect:
    return {} if stored is None else stored.value


def _read_first(one: MergedEntity) -> StoredEntity:
    return one.stored if one.read_first is None else one.read_first


def _of_others(proposal: Proposal, versions: Sequence[Aspect]) -> list[Aspect]:
    """Return those of `versions` that are not the one we wrote.

    The service may store another text than it was sent; then ours counts as the last.
    """
    others = [one for one in versions if not same_json(one, proposal.aspect)]
    return others if len(others) < len(versions) else others[:-1]
