"""Removal: what the source has no more is marked as removed, on proof and within limits.

Entities that a source says are removed wait until all of it is read; with those that a complete
pass did not come upon, and that the source itself says are gone, they are removed all or none.
"""

from mlcat_ingest.pipeline.removal.removal import Removal
from mlcat_ingest.pipeline.removal.withheld import Withheld

__all__ = ["Removal", "Withheld"]
