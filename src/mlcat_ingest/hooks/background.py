"""`python -m mlcat_ingest.hooks.background`: the drain that a sender starts, and nobody watches.

    background SPOOL RECIPE SERVER

What is said goes to the spool's `sender.log`. Where another drain is at work it leaves at once,
before it imports what a drain needs.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Final

from mlcat_ingest.hooks.spool import Spool

log = logging.getLogger("mlcat_ingest.hooks")

NICE: Final = 5


def main(arguments: list[str]) -> int:
    """Drain, and return 0 if all of it is done, 1 if there is a reason to try again."""
    folder, recipe, server = arguments
    spool = Spool(Path(folder))
    if spool.is_draining():
        return 0
    os.nice(NICE)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    from mlcat_ingest.hooks.hasty import drain_all

    why = drain_all(spool, recipe, server)
    if why is None:
        spool.resume()
        return 0
    log.error("%s", why)
    spool.pause(why)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
