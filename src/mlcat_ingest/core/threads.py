"""Work in daemon threads: Ctrl-C does not wait for it, and its errors are not lost."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start(
    work: Callable[[], T],
    name: str,
    on_error: Callable[[BaseException], None] | None = None,
) -> Future[T]:
    """Return the result to come of `work`, begun in a daemon thread of that name.

    Whatever it raises is told to `on_error`, in that thread, and is raised again where the result
    is asked for.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            if on_error is not None:
                on_error(error)
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
