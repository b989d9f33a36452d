"""Whether the catalog checks the version that a write names, and what to do where it does not."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from mlcat_ingest.client.base import Catalog, StoredAspect, StoredEntity
from mlcat_ingest.errors import AspectChangedError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION, Aspect, Proposal
from mlcat_ingest.pipeline.merge import (
    Merge,
    MergedEntity,
    propose,
    rebase_aspect,
    with_claims_of,
    without_computed,
)
from mlcat_ingest.pipeline.merge.equality import same_json
from mlcat_ingest.pipeline.merge.stored import read_stored
from mlcat_ingest.pipeline.report.tally import Tally

MAX_VERSIONS: Final = 20
"""Most versions of one aspect that are read to find out what a write of ours went over: as many as
a DataHub server keeps."""


_Known = Literal["checked", "ignored", "none"]
"""Versions that a write names are checked, or not; or the sink holds nothing and has none."""


class VersionChecks:
    """Learns from the run's first real write whether conditions hold. Safe for several threads."""

    def __init__(self, sink: Catalog, merge: Merge, tally: Tally) -> None:
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

        Cost: one request in a run, and a read where it is accepted; the other workers wait.
        """
        with self._lock:
            if self._known is None and not self._sink.keeps:
                self._known = "none"
            probe = _probe(batch) if self._known is None else None
            if probe is None:
                return
            refused = self._sink.write([probe])
            if not refused and self._stores(probe):
                self._known = "ignored"
            elif refused and isinstance(refused[0], AspectChangedError):
                self._known = "checked"
            # Refused for what it says, or dropped by a server that does not know it: the next
            # batch tells.

    def _stores(self, probe: Proposal) -> bool:
        urn, name = probe.entity_urn, probe.aspect_name
        return name in self._sink.read_many([urn], [name]).get(urn, ())

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
        over comes from the version history, and is put back. An entity that was hidden because
        nothing of others was on it is shown again if something is by now: a condition on what we
        write does not hold for an aspect that we do not write.

        Cost: where versions are not checked, one read an entity type, and one for each version
        that somebody else made; elsewhere one read an entity type of which some were hidden.
        """
        if self._known == "none":
            return []
        ignored = self._known == "ignored"
        if not ignored:
            self._tally.count(unverified=sum(map(_is_unconditional, arrived)))
        to_read = [one for one in arrived if ignored or _hidden_as_unused(one)]
        stored = read_stored(self._sink, [one.entity for one in to_read])
        again = []
        for one in to_read:
            now = stored.get(one.urn, {})
            put_back = self._put_back(one, now) if ignored else None
            restored = {**now, **(put_back or {})}
            show = self._show_again(one, restored)
            if put_back is not None or show is not None:
                merged = self._merged_anew(one, now, put_back or {})
                again.append(merged if show is None else _with_status(merged, show))
        self._tally.count(conflicts=len(again))
        return [one for one in again if one.proposals]

    def _show_again(self, one: MergedEntity, now: StoredEntity) -> Proposal | None:
        """Return what shows a hidden entity again; None where still nothing of others is on it."""
        status = now.get(STATUS)
        if not _hidden_as_unused(one) or status is None:
            return None
        visible = {name: aspect for name, aspect in now.items() if name != STATUS}
        if self._merge(one.entity, with_claims_of(one, visible)).outcome == "removed":
            return None
        # Without a condition: refused, it would be merged again, and has no base any more.
        return Proposal(one.urn, STATUS, {**status.value, "removed": False})

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
                verified &= len(between) == found - read - 1
                theirs = _of_others(proposal, [*between, after.value])
                if theirs:
                    value = rebase_aspect(name, _value(first.get(name)), theirs, after.value)
                    put_back[name] = StoredAspect(value, after.version)
        self._tally.count(unverified=not verified)
        return None if alone else put_back

    def _between(self, proposal: Proposal, first: int, last: int) -> list[Aspect]:
        """Return the versions from `first` to before `last`, without those before one not kept."""
        values: list[Aspect] = []
        for number in reversed(range(max(first, last - MAX_VERSIONS), last)):
            value = self._sink.get_aspect(proposal.entity_urn, proposal.aspect_name, number)
            if value is None:
                break
            values.append(value)
        return values[::-1]

    def _merged_anew(
        self, one: MergedEntity, now: StoredEntity, put_back: Mapping[str, StoredAspect]
    ) -> MergedEntity:
        merged = self._merge(one.entity, with_claims_of(one, {**now, **put_back}))
        said = {proposal.aspect_name for proposal in merged.proposals}
        restored = [
            propose(one.urn, name, now.get(name), aspect.value)
            for name, aspect in put_back.items()
            if name not in said and not same_json(aspect.value, now[name].value)
        ]
        # A patch is one of what is stored, where nothing is put back yet.
        proposals = [
            propose(one.urn, each.aspect_name, now.get(each.aspect_name), each.aspect)
            if each.change_type == "PATCH"
            else each
            for each in merged.proposals
        ]
        return replace(
            merged,
            outcome=one.outcome,
            proposals=(*restored, *proposals),
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


def _hidden_as_unused(one: MergedEntity) -> bool:
    return one.outcome == "removed" and not one.is_removed


def _with_status(merged: MergedEntity, status: Proposal) -> MergedEntity:
    return replace(merged, outcome="updated", proposals=(status, *merged.proposals))


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
    """Return those of `versions` that are not the one we wrote, without what is computed.

    The service may store another text than it was sent; then ours counts as the last.
    """
    name = proposal.aspect_name
    ours = without_computed(name, proposal.aspect)
    said = [without_computed(name, one) for one in versions]
    others = [one for one in said if not same_json(one, ours)]
    return others if len(others) < len(said) else others[:-1]
