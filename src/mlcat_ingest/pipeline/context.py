"""The context of a run: the objects that its stages share."""

from dataclasses import dataclass, field

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.pipeline.flow import Cancellation
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.state.session import StateSession


@dataclass(frozen=True, slots=True)
class RunContext:
    """The catalog of one run, where it is booked, and its cancellation."""

    sink: Catalog
    ledger: Ledger
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def state(self) -> StateSession:
        """What earlier runs left, and what this one keeps."""
        return self.ledger.state
