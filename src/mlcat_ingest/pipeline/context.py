"""The context of a run: the objects that its stages share."""

from dataclasses import dataclass, field

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.pipeline.flow import Cancellation
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.tracker import Tracker


@dataclass(frozen=True, slots=True)
class RunContext:
    """The catalog of one run, its counts, its state, and its cancellation."""

    sink: Catalog
    tally: Tally
    tracker: Tracker = field(default_factory=Tracker)
    cancellation: Cancellation = field(default_factory=Cancellation)
