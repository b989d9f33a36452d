"""How often the log says the same."""

import time
from collections.abc import Callable


class Pace:
    """Allows one line in `period_s` seconds, the first at once."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with a line allowed."""
        self._period_s = period_s
        self._clock = clock
        self._next_s = clock()

    def allows(self) -> bool:
        """Return whether it is time for a line; then the next period begins."""
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._period_s
        return True
