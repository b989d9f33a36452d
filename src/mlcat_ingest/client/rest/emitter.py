"""The emitter: sends proposals to the service, one or many, and names each that is refused.

Every write asks for ``"async": "false"``, so that a reply means that the proposal is durable. URNs
are sent in UTF-8, and only the text of an aspect in ASCII. The DataHub SDK's single emit sends
backslash escapes inside URNs, which names another entity.

Source: DataHub's Rest.li resource ``/aspects``, actions ``ingestProposal`` and
``ingestProposalBatch``; and OpenAPI v3's ``DELETE`` of an aspect, which those do not take.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.responses import (
    COMPUTED_FIELD,
    NO_SUCH_CALL,
    REFUSED_CONTENT,
    TOO_LARGE,
    denied_urns,
    is_conflict,
    is_passing_write,
    is_unacknowledged,
    is_unreadable,
    says,
)
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    AspectChangedError,
    AspectRejectedError,
    AspectTooLargeError,
    CatalogUnavailableError,
    CodecError,
    InvalidUrnError,
)
from mlcat_ingest.metadata.aspects import IS_LATEST, VERSION_PROPERTIES
from mlcat_ingest.metadata.codec import aspect_text, dumps, text_of
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.net.http import Reply

_FAULTS: Final = 8
"""Faults in a row, after which the next one is the service's, whatever it was sent."""

_DENIALS: Final = 16
"""Requests denied in a row, after which the next one is denied for all that there is to write."""

_RESENDS: Final = 2
"""How often a request is sent again unchanged, whose refusal may be no proposal's fault."""

RESEND_PAUSE_S: Final = 0.5
"""Seconds before that."""

MAX_TEXT_CHARS: Final = 16_000_000
"""Characters of a text in JSON, such as that of an aspect, that a DataHub server reads at most."""

NOT_SENT: Final = 0
"""The status of a proposal that was refused on our side, since it has no faithful JSON form."""

_ONE = "/aspects?action=ingestProposal"
_MANY = "/aspects?action=ingestProposalBatch"
_HEAD, _TAIL = b'{"proposals":[', b'],"async":"false"}'


@dataclass(frozen=True, slots=True)
class _EntityBatch:
    """Neighbours of one URN, which are written together, and their JSON, joined by commas."""

    proposals: Sequence[Proposal]
    data: bytes

    @property
    def urn(self) -> str:
        return self.proposals[0].entity_urn


class Emitter:
    """Sends proposals. Safe to use from several threads; each call sends one request at a time.

    Neighbours of one URN are one unit: they go in one request, and are taken or refused together.
    No URN is in two requests in flight, as long as it is not given to two threads. A unit that
    passes `max_proposals` or `max_bytes` is sent alone. `system_metadata`, if set, goes with each
    proposal.
    """

    system_metadata: Mapping[str, Any] | None = None

    def __init__(
        self,
        connection: Connection,
        *,
        max_proposals: int = MAX_REQUEST_ITEMS,
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._connection = connection
        self._max_proposals = max_proposals
        self._max_bytes = max_bytes - len(_HEAD) - len(_TAIL)
        self._took = False
        self._faults = 0
        self._denials = 0

    def emit(self, proposal: Proposal) -> None:
        """Write one proposal; it is durable when this returns.

        Raises:
            AspectRejectedError: the service refused it.
            CodecError, InvalidUrnError: it cannot be sent at all.
            CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: as their names say.

        Cost: one request.
        """
        body = b'{"proposal":' + self._encode(proposal) + b',"async":"false"}'
        reply = self._connection.request("POST", _ONE, body, is_passing_write)
        if reply.status in REFUSED_CONTENT:
            raise next(self._refusals([proposal], reply))
        self._accept(reply, what=proposal.aspect_name, urn=proposal.entity_urn)

    def write(self, proposals: Sequence[Proposal]) -> list[AspectRejectedError]:
        """Write `proposals` in their order and return those refused; the others are durable.

        All proposals of a URN are refused with one of them. A request that is refused because
        somebody has written since (`AspectChangedError`) is refused whole, not halved: who sends
        it has to read again first. URNs that the token may not write are refused alone. Proposals
        that delete an aspect go before the others of their URN, each in a request of its own,
        whatever version they name.

        Raises:
            NotAuthorizedError: nothing was ever taken, and many requests in a row were denied.
            CatalogUnavailableError, AuthenticationError, ProtocolMismatchError: as their names
                say; some proposals may have been written.

        Cost: one request for a batch of proposals, and for k refused URNs of n at most
        2k·log2(n) more; two more where the service has a fault. Memory: the JSON of `proposals`.
        """
        rejected: list[AspectRejectedError] = []
        groups: list[_EntityBatch] = []
        for _, group_of_urn in groupby(proposals, lambda proposal: proposal.entity_urn):
            neighbours = list(group_of_urn)
            written = [proposal for proposal in neighbours if proposal.change_type != "DELETE"]
            try:
                group = _EntityBatch(written, self._encode_all(written))
            except (CodecError, InvalidUrnError) as error:
                rejected.extend(_rejections(neighbours, NOT_SENT, f"not sent: {error}"))
                continue
            refused = self._delete_aspects(neighbours)
            if refused is not None:
                message = f"an aspect cannot be deleted: {self._connection.message(refused)}"
                rejected.extend(_rejections(neighbours, refused.status, message))
            elif written:
                groups.append(group)
        for batch in self._batches(groups):
            rejected.extend(self._send(batch))
        return rejected

    def _encode_all(self, proposals: Sequence[Proposal]) -> bytes:
        # Copied: what orjson returns takes several times its length for as long as it is kept.
        data = bytearray()
        for proposal in proposals:
            data += self._encode(proposal)
            data += b","
        return bytes(data[:-1])

    def _encode(self, proposal: Proposal) -> bytes:
        wire = proposal.wire()
        if self.system_metadata is not None:
            wire["systemMetadata"] = self.system_metadata
        return text_of(wire) or dumps(wire)

    def _delete_aspects(self, neighbours: Sequence[Proposal]) -> Reply | None:
        """Delete the aspects that are to go; return the reply that refuses to, if one does."""
        for proposal in neighbours:
            if proposal.change_type != "DELETE":
                continue
            place = (entity_type_of(proposal.entity_urn), proposal.entity_urn, proposal.aspect_name)
            path = "/".join(quote(part, safe="") for part in place)
            reply = self._connection.request("DELETE", f"/openapi/v3/entity/{path}")
            # Deleting an aspect takes another privilege than writing one.
            if reply.status in {*NO_SUCH_CALL, *REFUSED_CONTENT, HTTPStatus.FORBIDDEN}:
                return reply
            if not reply.ok:
                what = f"deleting {proposal.aspect_name}"
                raise self._connection.refusal(reply, what=what, urn=proposal.entity_urn)
        return None

    def _send(self, batch: Sequence[_EntityBatch]) -> Iterator[AspectRejectedError]:
        """Send a batch; halve it where it is refused, down to the entities at fault.

        One record can also set off a fault of the service, which then takes the others. If it
        takes none of several, and has taken nothing before, the fault is its own.
        """
        waiting = deque([batch])
        suspects: list[tuple[Sequence[_EntityBatch], Reply]] = []
        while waiting:
            part = waiting.popleft()
            reply = self._post(part, whole=part is batch)
            is_fault = _is_fault(reply) and self._faults < _FAULTS
            self._faults = self._faults + 1 if is_fault else 0
            refuses_content = _refuses_content(reply)
            is_denied = reply.status == HTTPStatus.FORBIDDEN and not refuses_content
            self._denials += is_denied and not self._took
            # The token may not write some of it, but perhaps the others.
            denies_some = is_denied and self._denials <= _DENIALS
            if not (is_fault or refuses_content or denies_some):
                self._accept_part(part, reply)
                continue
            refused, halves = _split(part, reply)
            if is_fault:
                waiting.extend(halves)  # first all that may show that the service is sound
                suspects.extend([(refused, reply)] if refused else [])
            else:
                waiting.extendleft(reversed(halves))
                yield from self._refusals(_proposals(refused), reply)
        for part, reply in suspects:
            if len(batch) > 1 and not self._took:
                self._accept_part(part, reply)
            yield from self._refusals(_proposals(part), reply)

    def _post(self, part: Sequence[_EntityBatch], *, whole: bool) -> Reply:
        """Return the reply to a part of a batch, which may be `whole`.

        Before v1.7 DataHub answers 500 once it has retried a transaction in vain, so that a fault
        need not be a record's. A whole batch waits until such a fault has passed, as long as other
        requests do; parts of it do not wait again.
        """
        data = [group.data for group in part]
        data[0] = _HEAD + data[0]
        data[-1] += _TAIL
        body = b",".join(data)

        def is_passing(reply: Reply) -> bool:
            # One entity is soon stored: sent again it is there already, or a conflict.
            is_late = reply.status == HTTPStatus.GATEWAY_TIMEOUT and len(part) == 1
            return is_late or (is_passing_write if whole else is_unacknowledged)(reply)

        reply = self._connection.request("POST", _MANY, body, is_passing)
        for _ in range(_RESENDS):
            if reply.ok or not (
                (whole and _is_fault(reply))
                or (says(reply, COMPUTED_FIELD) and not _sends_computed_field(part))
            ):
                break
            time.sleep(RESEND_PAUSE_S)
            reply = self._connection.request("POST", _MANY, body, is_unacknowledged)
        return reply

    def _refusals(
        self, proposals: Iterable[Proposal], reply: Reply
    ) -> Iterator[AspectRejectedError]:
        reason = self._connection.message(reply)
        proposals = list(proposals)
        large: Proposal | None = None
        if says(reply, TOO_LARGE) or (
            is_unreadable(reply) and any(_text_chars(one) > MAX_TEXT_CHARS for one in proposals)
        ):
            named = [one for one in proposals if f"aspect={one.aspect_name}" in reason]
            large = max(named or proposals, key=_text_chars, default=None)
        kind = AspectChangedError if large is None and is_conflict(reply) else AspectRejectedError
        for one in proposals:
            own = AspectTooLargeError if one is large else kind
            yield from _rejections([one], reply.status, reason, own)

    def _accept_part(self, part: Sequence[_EntityBatch], reply: Reply) -> None:
        count = sum(len(group.proposals) for group in part)
        first = part[0].proposals[0].entity_urn if len(part) == 1 else None
        self._accept(reply, what=plural(count, "proposal"), urn=first)
        self._took = True

    def _batches(self, groups: Sequence[_EntityBatch]) -> Iterator[list[_EntityBatch]]:
        """Yield `groups` in requests' sizes."""
        batch: list[_EntityBatch] = []
        count = size = 0
        for group in groups:
            length, length_bytes = len(group.proposals), len(group.data) + 1
            too_long = count + length > self._max_proposals or size + length_bytes > self._max_bytes
            if batch and too_long:
                yield batch
                batch, count, size = [], 0, 0
            batch.append(group)
            count += length
            size += length_bytes
        if batch:
            yield batch

    def _accept(self, reply: Reply, *, what: str, urn: str | None) -> None:
        if reply.status in NO_SUCH_CALL:
            raise self._connection.wrong_address(reply)
        if not reply.ok:
            raise self._connection.refusal(reply, what=what, urn=urn)
        if is_unacknowledged(reply):
            text = self._connection.mask(repr(reply.content[:60]))
            raise CatalogUnavailableError(
                f"{reply.peer} at {reply.url} did not acknowledge {what}: it answered "
                f"{reply.status} with {text}",
                hint="a proxy may answer in its place: see the proxy's log",
            )


def _is_fault(reply: Reply) -> bool:
    return reply.status == HTTPStatus.INTERNAL_SERVER_ERROR and not _refuses_content(reply)


def _refuses_content(reply: Reply) -> bool:
    by_words = not reply.ok and (says(reply, TOO_LARGE) or is_conflict(reply))
    return reply.status in REFUSED_CONTENT or by_words


def _sends_computed_field(groups: Sequence[_EntityBatch]) -> bool:
    return any(
        proposal.aspect_name == VERSION_PROPERTIES and IS_LATEST in proposal.aspect
        for proposal in _proposals(groups)
    )


def _split(
    part: Sequence[_EntityBatch], reply: Reply
) -> tuple[Sequence[_EntityBatch], Sequence[Sequence[_EntityBatch]]]:
    """Return what of a part is refused, and the parts of the rest that may pass."""
    if len(part) == 1 or is_conflict(reply):
        return part, ()
    denied = denied_urns(reply)
    if named := [group for group in part if group.urn in denied]:
        others = [group for group in part if group.urn not in denied]
        return named, [others] if others else ()
    middle = len(part) // 2
    return (), (part[:middle], part[middle:])


def _proposals(groups: Sequence[_EntityBatch]) -> Iterator[Proposal]:
    return (proposal for group in groups for proposal in group.proposals)


def _text_chars(proposal: Proposal) -> int:
    return len(aspect_text(proposal.aspect))


def _rejections(
    proposals: Iterable[Proposal],
    status: int,
    reason: str,
    kind: type[AspectRejectedError] = AspectRejectedError,
) -> Iterator[AspectRejectedError]:
    for proposal in proposals:
        yield kind(
            urn=proposal.entity_urn, aspect=proposal.aspect_name, status=status, reason=reason
        )
