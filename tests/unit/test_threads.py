"""Threads whose errors are not lost."""

import threading

import pytest

from mlcat_ingest.core import threads


def test_the_result_of_a_thread_is_waited_for() -> None:
    names = []

    def work() -> int:
        names.append(threading.current_thread().name)
        assert threading.current_thread().daemon
        return 7

    assert threads.start(work, "worker").result(30) == 7
    assert names == ["worker"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_the_error_of_a_thread_is_told_and_raised_where_it_is_waited_for(
    error: BaseException,
) -> None:
    def work() -> None:
        raise error

    told: list[BaseException] = []
    future = threads.start(work, "worker", told.append)
    assert future.exception(30) is error
    assert told == [error]
    with pytest.raises(type(error)):
        threads.start(work, "worker").result(30)
