"""Resources of a process: heap, garbage collection, threads whose errors are not lost."""

import gc
import subprocess
import sys
import threading

import pytest

from mlcat_ingest.core.resources import collecting_every, start_thread


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="heaps are counted in /proc")
def test_threads_share_one_heap_where_the_c_library_keeps_several() -> None:
    program = (
        "import sys, threading, pathlib\n"
        "from mlcat_ingest.core.resources import share_one_heap\n"
        "if sys.argv[1] == 'one': share_one_heap()\n"
        "both = threading.Barrier(4)\n"
        "def take():\n"
        "    held = [bytes(2_000) for _ in range(100)]\n"
        "    both.wait()\n"
        "threads = [threading.Thread(target=take) for _ in range(4)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]\n"
        "maps = pathlib.Path('/proc/self/maps').read_text().splitlines()\n"
        # What a heap of a thread has reserved and does not use yet.
        "print(sum('---p 00000000 00:00 0' in line for line in maps))\n"
    )
    reserved = {
        how: int(subprocess.check_output([sys.executable, "-c", program, how]))
        for how in ("one", "several")
    }
    assert reserved["one"] < reserved["several"]


def test_garbage_is_looked_for_less_often_only_inside_the_block() -> None:
    before = gc.get_threshold()
    gc.set_threshold(100)
    try:
        with collecting_every(2_000):
            assert gc.get_threshold()[0] == 2_000
        assert gc.get_threshold()[0] == 100
    finally:
        gc.set_threshold(*before)


def test_the_result_of_a_thread_is_waited_for() -> None:
    names = []

    def work() -> int:
        names.append(threading.current_thread().name)
        assert threading.current_thread().daemon
        return 7

    assert start_thread(work, "worker").result(30) == 7
    assert names == ["worker"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_the_error_of_a_thread_is_reported_and_raised_where_it_is_waited_for(
    error: BaseException,
) -> None:
    def work() -> None:
        raise error

    reported: list[BaseException] = []
    future = start_thread(work, "worker", reported.append)
    assert future.exception(30) is error
    assert reported == [error]
    with pytest.raises(type(error)):
        start_thread(work, "worker").result(30)
