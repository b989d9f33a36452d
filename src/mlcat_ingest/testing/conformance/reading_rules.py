"""The rules of `read` and `close`."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.codec import canonical
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.read.pages import name_of
from mlcat_ingest.sources.base import Finished, Page, ReadRequest
from mlcat_ingest.testing.conformance.readings import (
    AnySource,
    Reading,
    SourceSubject,
    content_of,
    mapped_entities,
    read_all,
)
from mlcat_ingest.testing.conformance.rules import Rule, Violation, attempt, words_of

_DOCUMENTED = (
    SourceUnavailableError,
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
)
_NO_RECORD = "the source"


def check_lazy(subject: SourceSubject) -> Iterator[Violation]:
    """Look at the requests made before the first page and after it."""
    with closing(subject.make()) as source:
        items: object = source.read(ReadRequest())
        if not isinstance(items, Iterator):
            words = f"`read` returns {type(items).__name__}, not an iterator"
            yield Violation(Rule.LAZY, _NO_RECORD, words)
        if (requests := source.requests_made()) > 0:
            words = f"requests made before the first page: {requests}"
            yield Violation(Rule.LAZY, _NO_RECORD, words)
    reading = subject.reading
    total = reading.requests[-1]
    # A source whose pages take a request each has some left to make after the first one.
    if 3 <= len(reading.pages) <= total and reading.requests[0] == total:
        made, pages = plural(total, "request"), plural(len(reading.pages), "page")
        words = f"all {made} for {pages} were made before the first"
        yield Violation(Rule.LAZY, _NO_RECORD, words)


def check_yields(subject: SourceSubject) -> Iterator[Violation]:
    """Look at the items of a reading, and at the partitions that they name."""
    reading = subject.reading
    for item in reading.items:
        if not isinstance(item, Page | Finished):
            yield _yields_violation(f"{type(item).__name__} is neither a Page nor Finished")
        if isinstance(item, Page):
            yield from _judge_records(item)
    yield from _judge_partitions(reading)


def _judge_partitions(reading: Reading) -> Iterator[Violation]:
    keys = {id(state): part.key for part, state in reading.asked}
    ended: set[str] = set()
    for item in (item for item in reading.items if isinstance(item, Page | Finished)):
        if item.partition is None:
            continue
        kind, key = type(item).__name__, keys.get(id(item.partition))
        if key is None:
            yield _yields_violation(f"{kind} is of a partition that `request.state` did not return")
        elif key in ended:
            yield _yields_violation(f"{kind} follows the end of the partition {key}")
        elif isinstance(item, Finished):
            ended.add(key)
    for key in keys.values():
        if key not in ended:
            yield _yields_violation(f"the partition {key} was asked for, and has no Finished")


def _judge_records(page: Page[Any]) -> Iterator[Violation]:
    records: object = page.records
    if not isinstance(records, Sequence):
        yield _yields_violation(
            f"the records of a page are {type(records).__name__}, not a sequence"
        )
        return
    for record in records:
        if not hasattr(record, "record_version"):
            words = "has no `record_version`; inherit SourceRecord"
            yield Violation(Rule.YIELDS, name_of(record), words)


def _yields_violation(words: str) -> Violation:
    return Violation(Rule.YIELDS, _NO_RECORD, words)


def check_order(subject: SourceSubject) -> Iterator[Violation]:
    """Look for models that precede a group which is yielded too."""
    with closing(subject.make()) as source:
        read = list(mapped_entities(source, read_all(source).records))
    groups = {entity.urn for _, entity in read if entity_type_of(entity.urn) == "mlModelGroup"}
    seen: set[str] = set()
    for record, entity in read:
        seen.add(entity.urn)
        for aspect in entity.aspects.values():
            for group in aspect.get("groups", ()):
                if group in groups and group not in seen:
                    words = f"{entity.urn} precedes its group {group}"
                    yield Violation(Rule.ORDER, name_of(record), words)


def check_repeatable(subject: SourceSubject) -> Iterator[Violation]:
    """Compare two readings of one source, the second after an abandoned one, and of another."""
    with closing(subject.make()) as source:
        first = _contents(source)
        abandoned = iter(source.read(ReadRequest()))
        next(abandoned, None)
        getattr(abandoned, "close", lambda: None)()
        yield from _compare(first, _contents(source), "a second reading of the source")
    with closing(subject.make()) as source:
        yield from _compare(first, _contents(source), "a reading by another source")


def _contents(source: AnySource) -> dict[str, str]:
    return {content_of(source, record): name_of(record) for record in read_all(source).records}


def _compare(first: dict[str, str], second: dict[str, str], reader: str) -> Iterator[Violation]:
    for content in first.keys() - second.keys():
        yield Violation(Rule.REPEATABLE, first[content], f"{reader} lacks it")
    for content in second.keys() - first.keys():
        yield Violation(Rule.REPEATABLE, second[content], f"only {reader} has it")


def check_versions(subject: SourceSubject) -> Iterator[Violation]:
    """Look at the version of each record, and compare them with those of another reading."""
    reading = subject.reading
    seen: set[tuple[int, str, str]] = set()
    for page in reading.pages:
        for record in page.records:
            version = record.record_version
            if version is None:
                continue
            if not (version.kind and version.id):
                yield Violation(Rule.VERSIONS, name_of(record), f"no kind or no id: {version}")
            place = (id(page.partition), version.kind, version.id)
            if place in seen:
                words = f"two records have the kind {version.kind} and the id {version.id}"
                yield Violation(Rule.VERSIONS, name_of(record), words)
            seen.add(place)
    with closing(subject.make()) as source:
        second = read_all(source).by_version()
    for key, record in reading.by_version().items():
        other = second.get(key)
        if other is None or other.record_version != record.record_version:
            words = f"another reading has {other and other.record_version}"
            yield Violation(Rule.VERSIONS, name_of(record), words)


def check_close(subject: SourceSubject) -> Iterator[Violation]:
    """Close a source before, between and after readings, and twice."""
    moments: dict[str, AnySource] = {"before it is read": subject.make()}
    half_read = subject.make()
    items = iter(half_read.read(ReadRequest()))
    next(items, None)
    moments["in the middle of a reading"] = half_read
    whole = subject.make()
    read_all(whole)
    moments["after a reading"] = whole
    for moment, source in moments.items():
        for time in ("", ", the second time"):
            failure = attempt(source.close)
            if failure is not None:
                words = f"closed {moment}{time}: {words_of(failure)}"
                yield Violation(Rule.CLOSE, _NO_RECORD, words)
    rest = attempt(lambda: list(items))
    if isinstance(rest, Exception) and not isinstance(rest, MlcatError):
        words = f"continuing a reading after `close` raises {words_of(rest)}"
        yield Violation(Rule.CLOSE, _NO_RECORD, words)
    for source in moments.values():
        source.close()


def check_cancellation(subject: SourceSubject) -> Iterator[Violation]:
    """Abandon a reading after its first page."""
    with closing(subject.make()) as source:
        items = source.read(ReadRequest())
        next(iter(items), None)
        failure = attempt(getattr(items, "close", lambda: None))
        if failure is not None:
            words = f"closing the iterator raises {words_of(failure)}"
            yield Violation(Rule.CANCELLATION, _NO_RECORD, words)
        requests = source.requests_made()
        left = attempt(lambda: list(items))
        if not isinstance(left, list) or left or source.requests_made() != requests:
            words = "the iterator yields pages after `close`; write `read` as a generator"
            yield Violation(Rule.CANCELLATION, _NO_RECORD, words)


def check_partitions(subject: SourceSubject) -> Iterator[Violation]:
    """Compare the partitions of two sources, and their checkpoints with JSON."""
    partitions = subject.reading.partitions
    with closing(subject.make()) as source:
        others = read_all(source).partitions
    if partitions != others:
        words = f"another source asks for other partitions: {others}"
        yield Violation(Rule.PARTITIONS, _NO_RECORD, words)
    keys = [partition.key for partition in partitions]
    for key in {key for key in keys if not key or "," in key or keys.count(key) > 1}:
        words = f"the key {key!r} is empty, used twice, or has a comma"
        yield Violation(Rule.PARTITIONS, _NO_RECORD, words)
    for key, checkpoint in subject.reading.checkpoints.items():
        failure = attempt(lambda value=checkpoint: canonical(value))  # type: ignore[misc]
        if isinstance(failure, Exception):
            words = f"the checkpoint of {key}: {words_of(failure)}"
            yield Violation(Rule.PARTITIONS, _NO_RECORD, words)


def check_findings(subject: SourceSubject) -> Iterator[Violation]:
    """Run `check` to its end."""
    with closing(subject.make()) as source:
        outcome = attempt(lambda: list(source.check()))
    if isinstance(outcome, Exception):
        if not isinstance(outcome, MlcatError):
            yield Violation(Rule.CHECK, _NO_RECORD, words_of(outcome))
        return
    findings: list[object] = [*outcome]
    for finding in findings:
        if isinstance(finding, Finding):
            continue
        yield Violation(Rule.CHECK, _NO_RECORD, f"{finding!r} is not a Finding")


def check_errors(subject: SourceSubject) -> Iterator[Violation]:
    """Read a system that does not answer."""
    if subject.make_unreachable is None:
        return
    source = subject.make_unreachable()
    outcome = attempt(lambda: read_all(source))
    if not isinstance(outcome, _DOCUMENTED):
        words = "it is read without an error"
        if isinstance(outcome, Exception):
            words = f"`read` raises {words_of(outcome)}"
        yield Violation(Rule.ERRORS, _NO_RECORD, f"{words}; raise SourceUnavailableError")
    failure = attempt(source.close)
    if failure is not None:
        yield Violation(Rule.ERRORS, _NO_RECORD, f"`close` after it raises {words_of(failure)}")
