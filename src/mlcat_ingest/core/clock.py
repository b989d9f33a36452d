"""The time as everything here writes it: milliseconds since 1970, UTC."""

import time


def now_ms() -> int:
    """Return the time, in epoch milliseconds."""
    return time.time_ns() // 1_000_000
