"""`python -m mlcat_ingest.hooks.background`: the drain process that a sender starts.

    background LEASE SPOOL RECIPE SERVER

LEASE is the open file that prevents a second drain. It is closed before the last listing of the
spool, so that either this listing finds an event, or its process can start the next drain. The log
is the spool's `sender.log`.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Final

from mlcat_ingest.hooks.spool import EventSpool

log = logging.getLogger("mlcat_ingest.hooks")

NICE: Final = 5


def main(arguments: list[str]) -> int:
    """Drain, and return 0 if all of it is done, `EX_TEMPFAIL` if another drain has to follow."""
    lease: int | None = int(arguments[0])
    spool = EventSpool(Path(arguments[1]))
    if spool.is_draining():
        return os.EX_TEMPFAIL
    os.nice(NICE)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    while lease is not None:
        before = set(spool.waiting())
        try:
            if not _drain(spool, *arguments[2:]):
                return os.EX_TEMPFAIL
        finally:
            os.close(lease)
        lease = spool.lease() if set(spool.waiting()) - before else None
    return os.EX_OK


def _drain(spool: EventSpool, recipe: str, server: str) -> bool:
    from mlcat_ingest.hooks.drain import drain_all  # not the standard library alone

    why = drain_all(spool, recipe, server)
    if why is None:
        spool.backoff.reset()
        return not spool.is_draining()  # by somebody else, who may be after other events
    log.error("%s", why)
    spool.backoff.record_failure(why)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
