"""Identity: what makes two observations of a system the same object. Pure, without I/O.

An id and a name only say where an object stands: a database gives a free number again, a backup
that is restored repeats them, and a name can be taken anew once its object is deleted.
"""

from typing import Final

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import ARTIFACT_SOURCE, RUN_ID

_CREATED: Final = "created"
_ORIGINS: Final = (RUN_ID, ARTIFACT_SOURCE)


def is_another(before: Aspect, now: Aspect) -> bool:
    """Return whether two properties aspects of one id, or of one name, are of two objects.

    The times of creation decide where both are known. Where one is not, the run and the source that
    an object was made from do, which it keeps for life. What only one of them tells decides
    nothing.
    """
    times = _created_ms(before), _created_ms(now)
    if None not in times:
        return times[0] != times[1]
    customs = before.get("customProperties") or {}, now.get("customProperties") or {}
    pairs = [tuple(custom.get(key) for custom in customs) for key in _ORIGINS]
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _created_ms(properties: Aspect) -> int | None:
    stamp = properties.get(_CREATED)
    time_ms = stamp.get("time") if isinstance(stamp, dict) else None
    return time_ms if isinstance(time_ms, int) and time_ms else None
