"""The progress of a run while it goes on, and its lines in a log."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from mlcat_ingest.core.findings import UnansweredRequest
from mlcat_ingest.core.resources import Pace
from mlcat_ingest.core.text import plural

PROGRESS: Final = "mlcat_ingest.progress"
"""Logger of progress lines; `record.progress` holds the numbers."""

PLAIN_INTERVAL_S: Final = 5.0
"""Seconds between two progress lines in a log."""

PATIENCE_S: Final = 5.0
"""Seconds without an answer after which progress shows it."""

log = logging.getLogger(PROGRESS)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: records read, entities done, and the request that waits longest."""

    records: int
    entities: int
    written: int
    evaluated: int
    elapsed_s: float
    pending_request: UnansweredRequest | None = None


OnProgress = Callable[[Progress], None]


class PlainProgress:
    """Logs how far a run is, at most every five seconds, and first after five."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pace = Pace(PLAIN_INTERVAL_S, clock, after_s=PLAIN_INTERVAL_S)

    def __call__(self, now: Progress) -> None:
        """Log `now` if it is time."""
        if self._pace.allows():
            numbers = asdict(now)
            del numbers["pending_request"]
            log.info("%s", progress_line(now), extra={"progress": numbers})


def progress_line(now: Progress) -> str:
    """Return progress as one line; it begins with the side that lets the run wait."""
    pending = now.pending_request
    waiting = f"{pending}; " if pending and pending.seconds >= PATIENCE_S else ""
    return waiting + (
        f"{plural(now.records, 'record')} read, "
        f"{plural(now.entities, 'entity', 'entities')} merged, "
        f"{now.written:,} written, {now.evaluated:,} evaluated"
    )
