"""Delivery of merged entities: conflicts are retried, refused entities aspect by aspect.

An entity is merged with what was read, and written under the condition that nothing has changed
since. After a conflict all of the entity is read and merged again, a bounded number of times. An
entity that the catalog rejects is retried aspect by aspect, each with its base, so that only the
aspect at fault is refused. An aspect that is too large, and an entity that the token may not
write, are not sent again. A write is idempotent: sent twice after a lost reply, it changes nothing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import count
from random import SystemRandom
from typing import Final, Protocol

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.errors import (
    AspectChangedError,
    AspectRejectedError,
    AspectTooLargeError,
    CatalogUnavailableError,
)
from mlcat_ingest.metadata.entries import same_json
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.registry import KEY_ASPECTS
from mlcat_ingest.net.session import TIMEOUTS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.entity import Merge, MergedEntity
from mlcat_ingest.pipeline.merge.provenance import is_removed
from mlcat_ingest.pipeline.merge.rules import properties_aspect, without_computed
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.pipeline.state.stamps import stamps_of
from mlcat_ingest.pipeline.write.conflicts import (
    ConflictGuard,
    aspects_to_read,
    read_stored,
    write_again,
)
from mlcat_ingest.pipeline.write.read_back import ReadBack

ROUNDS: Final = 8
"""How often an entity is written before its conflicts count as a refusal.

Each round writes batches of half the size, so that a contested entity is alone in the last ones.
"""

PAUSE_S: Final = 0.02
"""A third of the longest pause before the second round.

It grows threefold with each, up to `MAX_PAUSE_S`; at most half of it is left to chance. A service
that reads from a replica of its database may show the old version for seconds.
"""

MAX_PAUSE_S: Final = 30.0
"""The longest pause between two rounds."""

SHORT_BATCH_S: Final = 2.0
BATCH_S: Final = 5.0
"""The longest that the catalog should take for a batch: some proxies end a request after 30 s.

Batches grow after one that took less than `SHORT_BATCH_S`.
"""

LEAST_BATCH: Final = 20
"""Proposals in a batch at least: fewer cost twice as much each, seen on a DataHub server."""

_RANDOM: Final = SystemRandom()  # the state of `random` belongs to the user's program

OnWritten = Callable[[Sequence[MergedEntity]], None]
"""Takes entities as the catalog acknowledged them, from any thread."""


class DeliveryTarget(Protocol):
    """Takes merged entities: `Delivery` writes them, a plan only stores them.

    Attributes:
        batch_size: proposals in a batch at most.
    """

    batch_size: int

    def deliver(self, batch: Sequence[MergedEntity]) -> Sequence[Outcome]:
        """Take `batch`, and return what became of each entity, in no particular order."""

    def finish(self) -> None:
        """Count what is not stored of what was acknowledged; nothing is delivered after it."""


MakeDelivery = Callable[[RunContext, Merge], DeliveryTarget]


class Delivery:
    """Writes batches of merged entities. Safe to use from several threads."""

    def __init__(
        self,
        context: RunContext,
        merge: Merge,
        on_written: OnWritten | None = None,
    ) -> None:
        """Write to the catalog, and merge again by `merge`."""
        self._context = context
        self._on_written = on_written
        self._merge = merge
        self._conflicts = ConflictGuard(context, merge)
        self._read_back = ReadBack(context)
        self.batch_size = context.sink.facts.first_batch_size

    def deliver(self, batch: Sequence[MergedEntity]) -> list[Outcome]:
        """Write `batch` and return what became of each entity, in no particular order.

        Cost: one write request for up to `batch_size` proposals; one more in a run, to learn
        whether the catalog checks versions, unless that is known; one read an entity type
        after each write if it does not. If others write the same entities, one read an entity type
        and one write a round.
        """
        new = self._context.ledger.begin(batch)
        self._conflicts.learn(batch)
        delivered = self._deliver_rounds(batch, by_aspect=True)
        # What an earlier write left unfinished may be more than is written here.
        ended = (outcome.urn for outcome in delivered if not outcome.refusals)
        self._context.ledger.ended(new.intersection(ended))
        sent = sum(len(outcome.merged.proposals) for outcome in delivered)
        self._context.ledger.count(proposals_sent=sent)
        self._read_back.take([outcome.merged for outcome in delivered if not outcome.refusals])
        return delivered

    def finish(self) -> None:
        """Read a few of the entities again, and count what the catalog did not store of them.

        Cost: one read for each entity type that was written.
        """
        self._read_back.finish()

    def _deliver_rounds(self, batch: Sequence[MergedEntity], *, by_aspect: bool) -> list[Outcome]:
        """Write until every entity is delivered or refused; retry refused ones `by_aspect`."""
        outcomes: dict[str, Outcome] = {}
        waiting = list(batch)
        conflicted: list[MergedEntity] = []
        timeouts = count(1)
        for attempt in range(1, ROUNDS + 1):
            if attempt > 1:
                longest_s = min(MAX_PAUSE_S, PAUSE_S * 3 ** (attempt - 1))
                self._context.cancellation.pause(longest_s * _RANDOM.uniform(0.5, 1))
                # Read after the pause: what others write between read and write is a conflict.
                waiting.extend(self._merge_conflicted(conflicted))
            waiting, conflicted = self._round(
                waiting, attempt, outcomes, timeouts, by_aspect=by_aspect
            )
            if not waiting and not conflicted:
                break
        reason = f"still in conflict with another writer after {ROUNDS} attempts"
        for entity in (*waiting, *conflicted):
            refusals = tuple(Refusal(proposal, reason, ROUNDS) for proposal in entity.proposals)
            outcomes.setdefault(entity.urn, Outcome(entity, refusals))
        return list(outcomes.values())

    def _round(
        self,
        waiting: Sequence[MergedEntity],
        attempt: int,
        outcomes: dict[str, Outcome],
        timeouts: Iterator[int],
        *,
        by_aspect: bool,
    ) -> tuple[list[MergedEntity], list[MergedEntity]]:
        """Write each of `waiting` once.

        Return those to be written again, merged anew, and those to be read again before that.
        """
        retries: list[MergedEntity] = []
        conflicted: list[MergedEntity] = []
        first = self._context.sink.facts.first_batch_size
        most = self.batch_size if attempt == 1 else first >> (attempt - 1)
        for part in _split(waiting, max(1, min(most, self.batch_size))):
            started_s = time.monotonic()
            try:
                refused = self._write(part)
            except CatalogUnavailableError as error:
                if error.context.get("status") not in TIMEOUTS or next(timeouts) >= ROUNDS:
                    raise
                # The service may still work on it: what it has stored is read, then half is sent.
                self._await_stored(part[-1], time.monotonic() - started_s)
                conflicted.extend(part)
                continue
            arrived = [entity for entity in part if entity.urn not in refused]
            exact = self._conflicts.checks is True
            outcomes.update((entity.urn, self._arrived(entity, exact=exact)) for entity in arrived)
            if self._on_written is not None:
                self._on_written(arrived)
            retries.extend(self._conflicts.lost_updates(arrived))
            for entity in part if refused else ():
                errors = refused.get(entity.urn)
                if errors and (again := self._to_merge_again(entity, errors)):
                    conflicted.append(again)
                elif errors:
                    outcomes[entity.urn] = self._retry_by_aspect(
                        entity, errors, attempt, by_aspect=by_aspect
                    )
        return retries, conflicted

    def _to_merge_again(
        self, entity: MergedEntity, errors: Sequence[AspectRejectedError]
    ) -> MergedEntity | None:
        """Return a refused entity if it may pass once it is merged again, in its plain form."""
        if isinstance(errors[0], AspectChangedError):
            return entity
        # It is there, or the service does not take a computed field from anybody.
        return self._merge(entity.entity, None) if must_be_new(entity) else None

    def _arrived(self, merged: MergedEntity, *, exact: bool) -> Outcome:
        """Return the outcome of an entity that was written, with its stamps if they are certain."""
        sink, stamps = self._context.sink, None
        if exact and not (sink.facts.may_drop or merged.is_rewrite or merged.change == "removed"):
            stamps = stamps_of(merged, aspects_to_read(merged.entity), sink.system_metadata)
        return Outcome(merged, exact=exact, stamps=stamps)

    def _write(self, part: Sequence[MergedEntity]) -> dict[str, list[AspectRejectedError]]:
        self._context.cancellation.check()
        proposals = [proposal for entity in part for proposal in entity.proposals]
        refused: dict[str, list[AspectRejectedError]] = {}
        started_s = time.monotonic()
        try:
            errors = self._context.sink.write(self._conflicts.with_conditions(proposals))
        finally:
            self._adapt_batch_size(len(proposals), time.monotonic() - started_s)
        for error in errors:
            refused.setdefault(error.urn, []).append(error)
        return refused

    def _adapt_batch_size(self, proposals: int, took_s: float) -> None:
        """Make the next batches smaller if the catalog took too long, larger if it is fast."""
        size = self.batch_size
        if took_s > BATCH_S:
            size = int(proposals * BATCH_S / took_s)
        elif took_s < SHORT_BATCH_S:
            size *= 2
        self.batch_size = min(self._context.sink.facts.batch_size, max(LEAST_BATCH, size))

    def _await_stored(self, last: MergedEntity, seconds: float) -> None:
        """Wait until the `last` entity of a request is stored, for about `seconds` at most.

        Sent again before that, the request would compete with itself.
        """
        names = {proposal.aspect_name for proposal in last.proposals} - KEY_ASPECTS
        before = {name: last.stored[name].stamp for name in names if name in last.stored}
        for share in (32, 16, 8, 4, 2):
            self._context.cancellation.pause(seconds / share)
            if self._context.sink.read_stamps([last.urn], names).get(last.urn, {}) != before:
                return

    def _merge_conflicted(self, conflicted: Sequence[MergedEntity]) -> Iterator[MergedEntity]:
        """Read `conflicted` again and yield them merged anew."""
        sink, state = self._context.sink, self._context.state
        stored = read_stored(sink, state, [before.entity for before in conflicted])
        changed = 0
        for before in conflicted:
            if not before.stored and not stored.get(before.urn):
                yield before  # it was only in one request with what had changed
                continue
            merged = self._merge(before.entity, stored.get(before.urn))
            left = {proposal.aspect_name for proposal in merged.proposals}
            if not left:
                # A request that was sent twice has met what it had written itself.
                yield write_again(merged)._replace(change=before.change)
                continue
            # It may have, too, where somebody has changed only a part of that since.
            if before.is_rewrite or any(one.aspect_name not in left for one in before.proposals):
                is_done = before.change == "created" or (
                    before.change != "unchanged" and is_removed(merged.stored)
                )
                change = before.change if is_done else merged.change
                merged = write_again(merged)._replace(change=change)
            if merged.proposals == before.proposals:
                yield before  # it was only in one request with what had changed
            else:
                changed += _has_changed(before.stored, merged.stored)
                yield merged
        self._context.ledger.count(conflicts=changed)

    def _retry_by_aspect(
        self,
        merged: MergedEntity,
        errors: Sequence[AspectRejectedError],
        attempt: int,
        *,
        by_aspect: bool,
    ) -> Outcome:
        main_aspect = properties_aspect(merged.entity_type)
        entity = merged.entity
        # Without aspects it is only written once more: nothing of it is the source's.
        several = len(merged.proposals) > 1 and entity.aspects and not entity.only_if_absent
        denied = errors[0].status == HTTPStatus.FORBIDDEN
        whole = _refusal_of(merged, errors, attempt)
        if denied or not by_aspect or not several or not main_aspect:
            return whole
        too_large = {error.aspect for error in errors if isinstance(error, AspectTooLargeError)}
        # The properties first: without them there is no base for any of the others.
        names = [proposal.aspect_name for proposal in merged.proposals]
        names.sort(key=lambda name: name != main_aspect)
        refusals: list[Refusal] = []
        for name in names:
            fresh = entity.aspects.get(name)
            if name in too_large:
                refusals += [one for one in whole.refusals if one.proposal.aspect_name == name]
            elif fresh is not None:
                alone = replace(entity, aspects={name: fresh})
                refusals.extend(self._deliver_aspect(alone, again=merged.is_rewrite))
            if refusals and name == main_aspect:
                return whole
        return Outcome(merged, tuple(refusals))

    def _deliver_aspect(self, entity: Entity, *, again: bool) -> Iterator[Refusal]:
        """Write one aspect of an entity, with its base and its key; yield its refusal.

        It is written `again` though equal where the entity was, or where a request that was sent
        twice has met what it had written itself.
        """
        stored = read_stored(self._context.sink, self._context.state, [entity])
        merged = self._merge(entity, stored.get(entity.urn))
        if again or not merged.proposals:
            merged = write_again(merged)
        if merged.proposals:
            for outcome in self._deliver_rounds([merged], by_aspect=False):
                # The first one where only the base was refused, or the key.
                of_it = [r for r in outcome.refusals if r.proposal.aspect_name in entity.aspects]
                yield from (of_it or outcome.refusals)[:1]


def must_be_new(merged: MergedEntity) -> bool:
    """Return whether what is written of an entity is refused where the catalog has it."""
    return any(proposal.change_type == "CREATE_ENTITY" for proposal in merged.proposals)


def _has_changed(before: StoredEntity, now: StoredEntity) -> bool:
    """Return whether another writer changed what was read.

    With a new latest version the service itself rewrites the former one.
    """
    if before.keys() != now.keys():
        return True
    return any(
        not same_json(without_computed(name, aspect.value), without_computed(name, now[name].value))
        for name, aspect in before.items()
    )


def _split(entities: Sequence[MergedEntity], size: int) -> Iterator[list[MergedEntity]]:
    """Yield `entities` in parts of at most `size` proposals, each entity whole."""
    part: list[MergedEntity] = []
    count = 0
    for entity in entities:
        if part and count + len(entity.proposals) > size:
            yield part
            part, count = [], 0
        part.append(entity)
        count += len(entity.proposals)
    if part:
        yield part


def _refusal_of(
    merged: MergedEntity, errors: Sequence[AspectRejectedError], attempt: int
) -> Outcome:
    reasons = {
        error.aspect: f"{error.status} {error.reason}" if error.status else error.reason
        for error in errors
    }
    # The first refusal is the one that is reported: that of the aspect at fault.
    at_fault = {error.aspect for error in errors if isinstance(error, AspectTooLargeError)}
    proposals = sorted(merged.proposals, key=lambda proposal: proposal.aspect_name not in at_fault)
    first, status = reasons[errors[0].aspect], errors[0].status
    return Outcome(
        merged,
        tuple(
            Refusal(proposal, reasons.get(proposal.aspect_name, first), attempt, status)
            for proposal in proposals
        ),
    )
