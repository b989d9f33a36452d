"""Evaluating metadata tests: one entity or many.

The published interface names the parameters `shouldPush` and `testUrns`, DataHub's own resource
`push` and `tests`. Every request has both names of each, since a service ignores a name that it
does not know. The first push of a run is read back.

Source: ``POST /test?action=evaluate`` and ``?action=batchEvaluate``; record `TestResults`.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NoReturn

from mlcat_ingest.client.base import Evaluation, Reads, TestOutcome
from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.responses import NO_SUCH_CALL, REFUSED_CONTENT
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import CatalogRequestError
from mlcat_ingest.metadata.aspects import TEST_RESULTS
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.net.http import Reply

log = logging.getLogger(__name__)

NO_RESULTS: Final = "the service returned no results"
"""Why nothing was evaluated where a service that permits it has nothing to say of an entity."""


NO_TESTS: Final = "the service has no metadata tests"
"""Why nothing is evaluated by a service that lacks the call."""


class _StoppedError(Exception):
    """The service does not evaluate, for the reason that `ServiceEvaluator` keeps."""


class ServiceEvaluator:
    """Evaluates metadata tests. Safe to use from several threads.

    After a 403, or where the service has no such endpoint, it asks no more: every further call
    gives the same reason. An entity without a result is left out, never counted as passed.
    """

    def __init__(self, connection: Connection, reader: Reads) -> None:
        self._connection = connection
        self._reader = reader
        self._lock = threading.Lock()
        self._stopped: Evaluation | None = None
        self._batches = True
        self._push_checked = False

    def evaluate(
        self, urn: str, *, should_push: bool = False, test_urns: Sequence[str] = ()
    ) -> Evaluation:
        """Evaluate the tests of one entity; raises as `evaluate_batch`. Cost: one request."""
        return self.evaluate_batch(
            [urn], should_push=should_push, test_urns=test_urns, batches=False
        )

    def evaluate_batch(
        self,
        urns: Sequence[str],
        *,
        should_push: bool = False,
        test_urns: Sequence[str] = (),
        batches: bool = True,
    ) -> Evaluation:
        """Evaluate the tests of `urns`; no `test_urns` means every test that applies.

        Raises:
            CatalogRequestError: the service refused the request for another reason.
            CatalogUnavailableError, AuthenticationError, ProtocolMismatchError: as named.

        Cost: one request for a batch of URNs, or one a URN where the service has no batch call;
        one more for the first push; some sixteen more for each URN that a batch is refused for.
        Without `batches` it is one request a URN.
        """
        options: dict[str, Any] = {"shouldPush": should_push, "push": should_push}
        if test_urns:
            options |= {"testUrns": list(test_urns), "tests": list(test_urns)}
        outcomes: dict[str, TestOutcome] = {}
        refused: list[str] = []
        try:
            for chunk in chunks(list(dict.fromkeys(urns)), MAX_REQUEST_ITEMS):
                results = self._chunk(chunk, options, refused, batches=batches)
                if should_push:
                    results = self._check_push(chunk, results)
                outcomes.update(results)
        except _StoppedError:
            return replace(self._stopped or Evaluation(), outcomes=outcomes)
        if urns and not outcomes:
            return Evaluation(not_evaluated=refused[0] if refused else NO_RESULTS)
        return Evaluation(outcomes)

    def _chunk(
        self,
        urns: Sequence[str],
        options: Mapping[str, Any],
        refused: list[str],
        *,
        batches: bool,
    ) -> dict[str, TestOutcome]:
        if batches and self._batches:
            reply = self._ask("batchEvaluate", {"urns": list(urns), **options})
            if reply.ok:
                return _outcomes_by_urn(reply)
            if reply.status not in NO_SUCH_CALL | REFUSED_CONTENT:
                raise self._connection.refusal(reply, what="an evaluation of metadata tests")
            if reply.status in REFUSED_CONTENT and not _unknown_action(reply):
                return self._halves(urns, options, refused)
            self._batches = False
        with ThreadPoolExecutor(min(self._connection.connections, len(urns))) as pool:
            answers = list(pool.map(lambda urn: self._single(urn, options, refused), urns))
        return {
            urn: outcome for urn, outcome in zip(urns, answers, strict=True) if outcome is not None
        }

    def _halves(
        self, urns: Sequence[str], options: Mapping[str, Any], refused: list[str]
    ) -> dict[str, TestOutcome]:
        """Evaluate a refused batch in halves, down to the entities at fault."""
        middle = len(urns) // 2
        halves = [half for half in (urns[:middle], urns[middle:]) if half]
        outcomes: dict[str, TestOutcome] = {}
        for half in halves:
            outcomes |= self._chunk(half, options, refused, batches=len(half) > 1)
        return outcomes

    def _single(
        self, urn: str, options: Mapping[str, Any], refused: list[str]
    ) -> TestOutcome | None:
        reply = self._ask("evaluate", {"urn": urn, **options})
        if reply.ok:
            return _outcome(_value(reply))
        if reply.status in NO_SUCH_CALL or _unknown_action(reply):
            self._stop(f"{NO_TESTS} ({self._reason(reply)})", lacks_call=True)
        error = self._connection.refusal(reply, what="an evaluation of metadata tests", urn=urn)
        if not isinstance(error, CatalogRequestError):
            raise error
        log.warning("%s", error)
        refused.append(str(error))
        return None

    def _ask(self, action: str, body: Mapping[str, Any]) -> Reply:
        if self._stopped is not None:
            raise _StoppedError
        reply = self._connection.request("POST", f"/test?action={action}", dumps(body))
        if reply.status == 403:
            self._stop(f"no permission to evaluate metadata tests ({self._reason(reply)})")
        return reply

    def _stop(self, reason: str, *, lacks_call: bool = False) -> NoReturn:
        self._stopped = Evaluation(not_evaluated=reason, lacks_call=lacks_call)
        raise _StoppedError

    def _reason(self, reply: Reply) -> str:
        return f"{reply.status}: {self._connection.message(reply)}"

    def _check_push(
        self, urns: Sequence[str], outcomes: Mapping[str, TestOutcome]
    ) -> dict[str, TestOutcome]:
        """Check the first push by reading it back; take silent services' results from there."""
        silent = [urn for urn in urns if urn not in outcomes]
        evaluated = next((u for u, outcome in outcomes.items() if outcome != TestOutcome()), None)
        with self._lock:
            checked = None if self._push_checked else evaluated
            self._push_checked = self._push_checked or evaluated is not None
        to_read = silent if checked is None else [*silent, checked]
        if not to_read:
            return dict(outcomes)
        stored = {
            urn: _outcome(aspects[TEST_RESULTS].value)
            for urn, aspects in self._reader.read_many(to_read, [TEST_RESULTS]).items()
        }
        if checked is not None and not _holds(stored.get(checked), outcomes[checked]):
            log.warning("results were evaluated but not stored (%s)", checked)
        late = {urn: outcome for urn in silent if (outcome := stored.get(urn)) is not None}
        return {**outcomes, **late}


def _unknown_action(reply: Reply) -> bool:
    """Return whether a 400 says that the resource has no such action, as Rest.li answers."""
    return reply.status == 400 and any(
        word in reply.content for word in (b"not supported on resource", b"nknown action")
    )


def _value(reply: Reply) -> object:
    body = reply.json() if reply.content.strip() else None
    return body.get("value", body) if isinstance(body, dict) else None


def _outcomes_by_urn(reply: Reply) -> dict[str, TestOutcome]:
    match _value(reply):
        case {"results": dict(results)}:
            read = {urn: _outcome(result) for urn, result in results.items()}
            return {urn: outcome for urn, outcome in read.items() if outcome is not None}
        case _:
            return {}


def _outcome(value: object) -> TestOutcome | None:
    """Return a `TestResults` record as a value, None if it is none."""
    if not isinstance(value, dict) or not {"passing", "failing"} & value.keys():
        return None
    passing, failing = (
        tuple(
            entry["test"]
            for entry in (listed if isinstance(listed, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("test"), str)
        )
        for listed in map(value.get, ("passing", "failing"))
    )
    return TestOutcome(passing, failing)


def _holds(stored: TestOutcome | None, outcomes: TestOutcome) -> bool:
    return (
        stored is not None
        and set(outcomes.passing) <= set(stored.passing)
        and set(outcomes.failing) <= set(stored.failing)
    )
