"""Cancellation, channels and claims: who waits, who goes on, and how a stop ends all waiting."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.flow import Cancellation, Channel, InFlight, StoppedError
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.recipe.model import EvaluateSpec
from support.fakes import FakeSink, model_urn

WAIT_S = 30


@contextmanager
def in_thread(work: Callable[[], object]) -> Iterator[list[object]]:
    """Run `work` beside the block; its result, or its error, is in the list afterwards."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except StoppedError as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield results
    thread.join(WAIT_S)
    assert not thread.is_alive()


def waiting(cancellation: Cancellation) -> None:
    """Return once a thread waits on its condition."""
    done = threading.Event()
    while not done.wait(0.001):
        with cancellation.condition:
            if cancellation.condition._waiters:  # type: ignore[attr-defined]
                done.set()


def test_the_first_cause_is_kept() -> None:
    cancellation = Cancellation()
    first, second = ValueError("first"), ValueError("second")
    cancellation.stop(first)
    cancellation.stop(second)
    assert cancellation.cause is first
    with pytest.raises(StoppedError):
        cancellation.check()


def test_a_channel_gives_what_was_put_before_it_was_closed() -> None:
    channel: Channel[int] = Channel(Cancellation())
    channel.put(1)
    error = ValueError("early")
    channel.close(error)
    assert list(channel) == [1]
    assert channel.error is error


def test_a_full_channel_makes_its_producer_wait() -> None:
    cancellation = Cancellation()
    channel: Channel[int] = Channel(cancellation)
    channel.put(1)
    items = iter(channel)
    with in_thread(lambda: channel.put(2)) as results:
        waiting(cancellation)
        assert results == []
        assert next(items) == 1
    assert results == [None]
    assert next(items) == 2


@pytest.mark.parametrize("side", ["put", "get"])
def test_a_stop_ends_all_waiting(side: str) -> None:
    cancellation = Cancellation()
    channel: Channel[int] = Channel(cancellation)
    if side == "put":
        channel.put(1)
    work = {"put": lambda: channel.put(2), "get": lambda: list(channel)}[side]
    with in_thread(work) as results:
        waiting(cancellation)
        cancellation.stop(None)
    assert isinstance(results[0], StoppedError)


def test_a_claim_waits_until_the_urn_is_released() -> None:
    cancellation = Cancellation()
    claims = InFlight(cancellation)
    assert claims.claim(["a", "b"])
    assert claims.claim(["c"])
    with in_thread(lambda: claims.claim(["b", "d"])) as results:
        waiting(cancellation)
        claims.release(["a"])
        assert results == []
        claims.release(["b"])
    assert results == [True]


def test_a_claim_on_a_buffered_urn_asks_for_a_flush() -> None:
    cancellation = Cancellation()
    claims = InFlight(cancellation)
    claims.claim(["a"])
    with in_thread(lambda: claims.claim(["a"])) as results:
        waiting(cancellation)
        claims.mark_buffered(["a"])
    assert results == [False]


def test_settling_waits_for_what_releases_and_tells_what_is_buffered() -> None:
    cancellation = Cancellation()
    claims = InFlight(cancellation)
    assert claims.wait_until_idle()
    claims.claim(["a", "b"])
    claims.mark_buffered(["a"])
    with in_thread(claims.wait_until_idle) as results:
        waiting(cancellation)
        claims.release(["b"])
    assert results == [False]
    claims.mark_sent(["a"])
    claims.release(["a"])
    assert claims.wait_until_idle()


@pytest.mark.parametrize("verb", ["claim", "wait_until_idle"])
def test_a_stop_ends_waiting_for_urns(verb: str) -> None:
    cancellation = Cancellation()
    claims = InFlight(cancellation)
    claims.claim(["a"])
    work = {"claim": lambda: claims.claim(["a"]), "wait_until_idle": claims.wait_until_idle}[verb]
    with in_thread(work) as results:
        waiting(cancellation)
        cancellation.stop(None)
    assert isinstance(results[0], StoppedError)


def test_a_batch_that_was_cut_before_evaluation_ended_is_not_evaluated() -> None:
    sink, cancellation = FakeSink(not_evaluated="404"), Cancellation()
    evaluator = Evaluator(
        RunContext(sink, Ledger(Tally("t")), cancellation=cancellation), EvaluateSpec()
    )
    evaluator.add(model_urn(f"r{n}") for n in range(450))
    evaluator.flush()
    evaluator.add([model_urn("late")])
    assert len(sink.evaluations) == 1


def test_nothing_is_evaluated_once_the_run_is_stopped() -> None:
    sink, cancellation = FakeSink(), Cancellation()
    evaluator = Evaluator(
        RunContext(sink, Ledger(Tally("t")), cancellation=cancellation), EvaluateSpec()
    )
    evaluator.add([model_urn("r")])
    cancellation.stop(None)
    with pytest.raises(StoppedError):
        evaluator.flush()
    assert sink.evaluations == []
