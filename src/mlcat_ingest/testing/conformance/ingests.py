"""The rules that an ingest shows: a run of the pipeline into a catalog in memory."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.codec import canonical, content_hash
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.pipeline.read.pages import name_of
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Capability, Changes, ReadScope
from mlcat_ingest.testing.conformance.rules import (
    SOURCE,
    AnySource,
    Check,
    Found,
    Rule,
    SourceSubject,
    attempt,
    content_of,
    entities_of,
    read_all,
    without_sightings,
    words_of,
)
from mlcat_ingest.testing.recording import RecordingCatalog

_RECIPE = {
    "name": "conformance",
    "sources": [{"type": "definitions"}],
    "report_to_catalog": False,
    "evaluate": {"enabled": False},
    "limits": {"max_removed_ratio": 1.0},
}


class Ingests:
    """Runs of one recipe into a catalog of its own, with a state that is deleted at the end."""

    def __init__(self, make: Callable[[], AnySource], folder: Path | None = None) -> None:
        """Keep state in `folder`; None keeps none."""
        self.catalog = RecordingCatalog()
        self._make = make
        self._url = None if folder is None else f"sqlite:///{folder}/state.db"
        self._full_runs = 0

    def run(self, scope: ReadScope | None = None, *, full: bool = False) -> Report:
        """Ingest once with a new source, which the run closes; `full` maps every record again."""
        self._full_runs += full
        # With other settings no record counts as unchanged.
        state_options = StateOptions(
            "conformance", ("conformance",), settings=str(self._full_runs), full=full
        )
        options = RunOptions(
            Recipe.model_validate(_RECIPE),
            state=StateSession(self._url, state_options),
            scope=scope or Changes(),
        )
        report = PipelineRun([self._make()], self.catalog, options).execute()
        report.raise_for_failure()
        return report

    def proposals(self) -> Iterator[Proposal]:
        """Return every proposal that was written so far."""
        return chain.from_iterable(self.catalog.writes)

    @property
    def live(self) -> dict[str, Mapping[str, Aspect]]:
        """The stored aspects of each entity that is not removed, without its status."""
        return {
            urn: {name: value for name, value in aspects.items() if name != STATUS}
            for urn, aspects in self.catalog.stored.items()
            if urn not in self.removed
        }

    @property
    def owned(self) -> set[str]:
        """The live entities that name their source; the others are merely referred to."""
        return {urn for urn, aspects in self.live.items() if SOURCE_KEY in str(aspects)}

    @property
    def removed(self) -> set[str]:
        """The entities that are marked as removed."""
        stored = self.catalog.stored.items()
        return {urn for urn, aspects in stored if aspects.get(STATUS, {}).get("removed")}


@contextmanager
def _with_state(make: Callable[[], AnySource]) -> Iterator[Ingests]:
    """Give runs with state, into a catalog that is empty."""
    with TemporaryDirectory(prefix="mlcat-") as folder:
        yield Ingests(make, Path(folder))


def differing(
    first: Mapping[str, Mapping[str, Aspect]], second: Mapping[str, Mapping[str, Aspect]]
) -> Iterator[str]:
    """Yield the URN of each entity that the two catalogs do not hold alike."""
    for urn in sorted(first.keys() | second.keys()):
        held = (content_hash(without_sightings(one.get(urn, {}))) for one in (first, second))
        if next(held) != next(held):
            yield urn


def _idempotent(subject: SourceSubject) -> Found:
    """Ingest three times: what changed since the first time, and everything again."""
    with _with_state(subject.make) as runs:
        runs.run()
        writes = len(runs.catalog.writes)
        for full in (False, True):
            runs.run(full=full)
        for proposal in chain.from_iterable(runs.catalog.writes[writes:]):
            yield proposal.entity_urn, f"a second run writes {proposal.aspect_name} again"


def _complete(subject: SourceSubject) -> Found:
    """Look for complete partitions whose entities can be found by their key."""
    with closing(subject.make()) as source:
        if Capability.MISSING not in source.capabilities:
            return
    complete = {
        id(partition.partition) for partition in subject.reading.finished if partition.complete
    }
    runs = Ingests(subject.make)
    runs.run()
    kept = canonical(runs.catalog.stored).decode()
    for partition, state in subject.reading.asked:
        if id(state) not in complete:
            yield SOURCE, f"the partition {partition.key} does not end with Finished(complete=True)"
        if subject.reading.records and partition.key not in kept:
            yield SOURCE, f"no entity has {partition.key} in the custom property {SOURCE_KEY}"


def _incremental(subject: SourceSubject) -> Found:
    """Change the system, and compare a run over the changes with a run over everything."""
    if subject.change is None:
        return
    with _with_state(subject.make) as changes:
        changes.run()
        before = dict(changes.live)
        subject.change()
        changes.run()
        everything = Ingests(subject.make)
        everything.run()
        if not list(differing(before, everything.live)):
            raise ValueError("`change` changed no entity, so nothing was tried")
        for urn in differing(changes.live, everything.live):
            yield urn, "an incremental run leads to another result than a full run"


def _digests(subject: SourceSubject) -> Found:
    """Compare records before and after the change that have the same digest."""
    if subject.change is None:
        return
    with closing(subject.make()) as source:
        after = read_all(source).by_version()
        for key, record in subject.reading.by_version().items():
            other = after.get(key)
            version = record.record_version
            if other is None or version.digest is None or version != other.record_version:
                continue
            if content_of(source, record) != content_of(source, other):
                yield name_of(record), "its entities changed, and its record version did not"


def _removal(subject: SourceSubject) -> Found:
    """Remove something from the system, and look at the entities that two runs remove."""
    if subject.remove is None:
        return
    with _with_state(subject.make) as runs:
        runs.run(full=True)
        subject.remove()
        runs.run(full=True)
        runs.run(full=True)
        everything = Ingests(subject.make)
        everything.run()
        for urn in sorted(runs.owned - everything.live.keys()):
            yield urn, "deleted in the system, it is not removed"
        for urn in sorted(runs.removed & everything.live.keys()):
            yield urn, "it is removed, but exists in the system"


def _secrets(subject: SourceSubject) -> Found:
    """Look for secrets in all that leaves a source."""
    if not subject.secrets:
        return
    for place, text in _texts(subject):
        if any(secret in text for secret in subject.secrets):
            yield place, "it contains a secret"


def _texts(subject: SourceSubject) -> Iterator[tuple[str, str]]:
    messages: list[str] = []
    with _log_messages(messages), closing(subject.make()) as source:
        yield "`check`", _shown(attempt(lambda: list(source.check())))
        reading = read_all(source)
        for partition in reading.partitions:
            yield "the partition", str(partition)
        for key, checkpoint in reading.checkpoints.items():
            yield f"the checkpoint of {key}", str(checkpoint)
        for record in reading.records:
            yield f"the version of {name_of(record)}", str(record.record_version)
            yield name_of(record), _shown(entities_of(source, record))
        if subject.make_unreachable is not None:
            unreachable = subject.make_unreachable()
            failure = attempt(lambda: read_all(unreachable))
            unreachable.close()
            yield "the error of `read`", str(failure)
        yield "the report", str(Ingests(subject.make).run())
    for message in messages:
        yield "a log message", message


def _shown(outcome: object) -> str:
    return words_of(outcome) if isinstance(outcome, Exception) else str(outcome)


@contextmanager
def _log_messages(messages: list[str]) -> Iterator[None]:
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


CHECKS: Final[Mapping[Rule, Check[SourceSubject]]] = {
    Rule.COMPLETE: _complete,
    Rule.IDEMPOTENT: _idempotent,
    Rule.SECRETS: _secrets,
    Rule.INCREMENTAL: _incremental,
    Rule.DIGEST: _digests,
    Rule.REMOVAL: _removal,
}
"""Those that change the system come last; DIGEST compares what INCREMENTAL changed."""
