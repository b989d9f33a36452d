"""The rules of `read`, `close` and `map`, and of declared capabilities."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    AuthenticationError,
    InvalidUrnError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SkippableError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.codec import canonical
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.pipeline.read.pages import name_of
from mlcat_ingest.sources.base import (
    Capability,
    Everything,
    FeaturesOnly,
    Finished,
    Page,
    ReadRequest,
    Remainder,
    Runs,
    Shards,
    Source,
)
from mlcat_ingest.testing.conformance.ingests import Ingests, differing
from mlcat_ingest.testing.conformance.rules import (
    SOURCE,
    AnySource,
    Check,
    Found,
    Reading,
    Rule,
    SourceSubject,
    attempt,
    content_of,
    entities_of,
    mapped_entities,
    read_all,
    words_of,
)

_DOCUMENTED = (
    SourceUnavailableError,
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
)


def _lazy(subject: SourceSubject) -> Found:
    """Look at the requests made before the first page and after it."""
    with closing(subject.make()) as source:
        items: object = source.read(ReadRequest())
        if not isinstance(items, Iterator):
            yield SOURCE, f"`read` returns {type(items).__name__}, not an iterator"
        if (requests := source.traffic.requests_made()) > 0:
            yield SOURCE, f"requests made before the first page: {requests}"
    reading = subject.reading
    total = reading.requests[-1]
    # A source whose pages take a request each has some left to make after the first one.
    if 3 <= len(reading.pages) <= total and reading.requests[0] == total:
        made, pages = plural(total, "request"), plural(len(reading.pages), "page")
        yield SOURCE, f"all {made} for {pages} were made before the first"


def _yields(subject: SourceSubject) -> Found:
    """Look at the items of a reading, and at the partitions that they name."""
    reading = subject.reading
    for item in reading.items:
        if not isinstance(item, Page | Finished):
            yield SOURCE, f"{type(item).__name__} is neither a Page nor Finished"
    for record in reading.records:
        if not hasattr(record, "record_version"):
            yield name_of(record), "has no `record_version`; inherit SourceRecord"
    yield from _judge_partitions(reading)


def _judge_partitions(reading: Reading) -> Found:
    keys = {id(state): part.key for part, state in reading.asked}
    ended: set[str] = set()
    for item in reading.items:
        if not isinstance(item, Page | Finished) or item.partition is None:
            continue
        kind, key = type(item).__name__, keys.get(id(item.partition))
        if key is None:
            yield SOURCE, f"{kind} is of a partition that `request.state` did not return"
        elif key in ended:
            yield SOURCE, f"{kind} follows the end of the partition {key}"
        elif isinstance(item, Finished):
            ended.add(key)
    for key in sorted({*keys.values()} - ended):
        yield SOURCE, f"the partition {key} was asked for, and has no Finished"


def _order(subject: SourceSubject) -> Found:
    """Look for models that precede a group which is yielded too."""
    read = subject.entities
    groups = {entity.urn for _, entity in read if entity_type_of(entity.urn) == "mlModelGroup"}
    seen: set[str] = set()
    for record, entity in read:
        seen.add(entity.urn)
        for aspect in entity.aspects.values():
            for group in aspect.get("groups", ()):
                if group in groups and group not in seen:
                    yield name_of(record), f"{entity.urn} precedes its group {group}"


def _repeatable(subject: SourceSubject) -> Found:
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


def _compare(first: dict[str, str], second: dict[str, str], reader: str) -> Found:
    for content in first.keys() - second.keys():
        yield first[content], f"{reader} lacks it"
    for content in second.keys() - first.keys():
        yield second[content], f"only {reader} has it"


def _versions(subject: SourceSubject) -> Found:
    """Look at the version of each record, and compare them with those of another reading."""
    reading = subject.reading
    seen: set[tuple[int, str, str]] = set()
    for page in reading.pages:
        for record in page.records:
            version = record.record_version
            if version is None:
                continue
            if not (version.kind and version.id):
                yield name_of(record), f"no kind or no id: {version}"
            place = (id(page.partition), version.kind, version.id)
            if place in seen:
                words = f"two records have the kind {version.kind} and the id {version.id}"
                yield name_of(record), words
            seen.add(place)
    with closing(subject.make()) as source:
        second = read_all(source).by_version()
    for key, record in reading.by_version().items():
        other = second.get(key)
        if other is None or other.record_version != record.record_version:
            yield name_of(record), f"another reading has {other and other.record_version}"


def _close(subject: SourceSubject) -> Found:
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
                yield SOURCE, f"closed {moment}{time}: {words_of(failure)}"
    rest = attempt(lambda: list(items))
    if isinstance(rest, Exception) and not isinstance(rest, MlcatError):
        yield SOURCE, f"continuing a reading after `close` raises {words_of(rest)}"
    for source in moments.values():
        source.close()


def _cancellation(subject: SourceSubject) -> Found:
    """Abandon a reading after its first page."""
    with closing(subject.make()) as source:
        items = source.read(ReadRequest())
        next(iter(items), None)
        failure = attempt(getattr(items, "close", lambda: None))
        if failure is not None:
            yield SOURCE, f"closing the iterator raises {words_of(failure)}"
        requests = source.traffic.requests_made()
        left = attempt(lambda: list(items))
        if not isinstance(left, list) or left or source.traffic.requests_made() != requests:
            yield SOURCE, "the iterator yields pages after `close`; write `read` as a generator"


def _partitions(subject: SourceSubject) -> Found:
    """Compare the partitions of two sources, and their checkpoints with JSON."""
    partitions = subject.reading.partitions
    with closing(subject.make()) as source:
        others = read_all(source).partitions
    if partitions != others:
        yield SOURCE, f"another source asks for other partitions: {others}"
    keys = [partition.key for partition in partitions]
    for key in {key for key in keys if not key or "," in key or keys.count(key) > 1}:
        yield SOURCE, f"the key {key!r} is empty, used twice, or has a comma"
    for key, checkpoint in subject.reading.checkpoints.items():
        failure = attempt(lambda value=checkpoint: canonical(value))  # type: ignore[misc]
        if isinstance(failure, Exception):
            yield SOURCE, f"the checkpoint of {key}: {words_of(failure)}"


def _findings(subject: SourceSubject) -> Found:
    """Run `check` to its end."""
    with closing(subject.make()) as source:
        outcome = attempt(lambda: list[object](source.check()))
    if isinstance(outcome, list):
        for finding in outcome:
            if not isinstance(finding, Finding):
                yield SOURCE, f"{finding!r} is not a Finding"
    elif not isinstance(outcome, MlcatError):
        yield SOURCE, words_of(outcome)


def _errors(subject: SourceSubject) -> Found:
    """Read a system that does not answer."""
    if subject.make_unreachable is None:
        return
    source = subject.make_unreachable()
    outcome = attempt(lambda: read_all(source))
    if not isinstance(outcome, _DOCUMENTED):
        words = "it is read without an error"
        if isinstance(outcome, Exception):
            words = f"`read` raises {words_of(outcome)}"
        yield SOURCE, f"{words}; raise SourceUnavailableError"
    failure = attempt(source.close)
    if failure is not None:
        yield SOURCE, f"`close` after it raises {words_of(failure)}"


def _pure(subject: SourceSubject) -> Found:
    """Map each record twice, in another order, and after `close`."""
    source = subject.make()
    records = read_all(source).records
    requests = source.traffic.requests_made()
    contents: list[str] = []
    for record in records:
        before = repr(record)
        contents.append(content_of(source, record))
        if repr(record) != before:
            yield name_of(record), "`map` changed the record"
    if source.traffic.requests_made() != requests:
        yield SOURCE, f"`map` made {plural(source.traffic.requests_made() - requests, 'request')}"
    again = [content_of(source, record) for record in reversed(records)][::-1]
    source.close()
    closed = [content_of(source, record) for record in records]
    for record, first, second, third in zip(records, contents, again, closed, strict=True):
        if first != second:
            yield name_of(record), "mapped twice, it gives other entities"
        elif first != third:
            yield name_of(record), "after `close` it gives other entities"


def _skippable(subject: SourceSubject) -> Found:
    """Look at the errors of `map`."""
    with closing(subject.make()) as source:
        for record in read_all(source).records:
            entities = entities_of(source, record)
            if isinstance(entities, Exception) and not isinstance(entities, SkippableError):
                yield name_of(record), words_of(entities)
        for record in subject.unmappable:
            entities = entities_of(source, record)
            if not isinstance(entities, Exception):
                words = f"mapped to {plural(len(entities), 'entity', 'entities')}"
                yield name_of(record), f"it is unusable, and {words}"
            elif not isinstance(entities, SkippableError):
                yield name_of(record), words_of(entities)


def _urns(subject: SourceSubject) -> Found:
    """Look at the URN of each entity."""
    for record, entity in subject.entities:
        try:
            check(entity.urn)
        except InvalidUrnError as error:
            yield name_of(record), words_of(error)
        else:
            if (entity_type := entity_type_of(entity.urn)) not in ENTITY_TYPES:
                yield name_of(record), f"{entity.urn}: unknown type {entity_type}"


def _aspects(subject: SourceSubject) -> Found:
    """Validate the proposals that a run makes."""
    makers = {entity.urn: name_of(record) for record, entity in reversed(subject.entities)}
    runs = Ingests(subject.make)
    runs.run()
    for proposal in runs.proposals():
        urn, name = proposal.entity_urn, proposal.aspect_name
        problems = map(str, validate_aspect(entity_type_of(urn), name, proposal.aspect))
        encoded = attempt(proposal.wire)
        unsent = [words_of(encoded)] if isinstance(encoded, Exception) else []
        for problem in (*problems, *unsent):
            yield makers.get(urn, urn), f"{urn}: {name}: {problem}"


_METHODS: Final = {
    Capability.FEATURES: "coming_tables",
    Capability.MISSING: "missing",
    Capability.SHARDS: "shards",
}
"""The method that implements each capability; `RUNS` is a scope of `read` alone."""

_UNKNOWN_ID: Final = "mlcat-conformance-unknown"


def _declared(subject: SourceSubject) -> Found:
    """Compare the declared capabilities with the methods that the class overrides."""
    with closing(subject.make()) as source:
        kind = type(source)
    for capability, method in _METHODS.items():
        overrides = getattr(kind, method) is not getattr(Source, method)
        declares = capability in kind.capabilities
        does, lacks = f"implements `{method}`", f"declare Capability.{capability.name}"
        if declares:
            does, lacks = f"declares {capability.name}", f"implement `{method}`"
        if overrides != declares:
            yield kind.__name__, f"{does}, and does not {lacks}"


def _features(subject: SourceSubject) -> Found:
    """Compare the coming tables and the index with the tables that are read."""
    with closing(subject.make()) as source:
        if Capability.FEATURES not in source.capabilities:
            return
        coming = {table.urn: table.source for table in source.coming_tables()}
        only = read_all(source, FeaturesOnly())
    reading, urns = subject.reading, (entity.urn for _, entity in subject.entities)
    tables = {urn for urn in urns if entity_type_of(urn) == "mlFeatureTable"}
    for urn in sorted(tables ^ coming.keys()):
        words = "is read" if urn in tables else "is not read"
        yield urn, f"it {words}, contrary to `coming_tables`"
    keys = {partition.key for partition in reading.partitions}
    for urn, key in coming.items():
        if key not in keys:
            yield urn, f"`coming_tables` names the source {key}"
    if all(partition.index is None for partition in reading.finished):
        yield SOURCE, "no Finished has an index"
    if only.records or only.asked:
        yield SOURCE, "FeaturesOnly yields records, or asks for a partition"
    if all(partition.index is None for partition in only.finished):
        yield SOURCE, "FeaturesOnly ends without an index"


def _shards(subject: SourceSubject) -> Found:
    """Read shard by shard and the rest, and compare with everything."""
    with closing(subject.make()) as source:
        if Capability.SHARDS not in source.capabilities:
            return
        keys = [shard.key for shard in source.shards()]
    for key in {key for key in keys if keys.count(key) > 1}:
        yield f"the shard {key}", "it is yielded twice"
    seen: dict[tuple[str, str], str] = {}
    for key in keys:
        yield from _judge_shard(subject, key, seen)
    whole, divided = Ingests(subject.make), Ingests(subject.make)
    whole.run(Everything())
    for key in keys:
        divided.run(Shards((key,)))
    divided.run(Remainder())
    for urn in differing(whole.live, divided.live):
        yield urn, "shards and the rest lead to another result than everything"


def _judge_shard(subject: SourceSubject, key: str, seen: dict[tuple[str, str], str]) -> Found:
    with closing(subject.make()) as source:
        reading = read_all(source, Shards((key,)))
    if reading.asked:
        yield f"the shard {key}", "it asks for a partition"
    if not reading.records:
        yield f"the shard {key}", "it contains no record"
    for version, record in reading.by_version().items():
        other = seen.setdefault(version, key)
        if other != key:
            yield name_of(record), f"it is in the shards {other} and {key}"


def _runs(subject: SourceSubject) -> Found:
    """Ask for records by all ids there are, and by one that there is not."""
    with closing(subject.make()) as source:
        if Capability.RUNS not in source.capabilities:
            return
        everything = read_all(source).by_version()
        ids = {id_ for _, id_ in everything}
        reading = read_all(source, Runs([*sorted(ids), _UNKNOWN_ID]))
        found_ids = {id_ for partition in reading.finished for id_ in partition.found_ids}
        if not found_ids:
            yield SOURCE, f"none of {plural(len(ids), 'id')} is found"
        for id_ in sorted(found_ids - ids):
            yield SOURCE, f"{id_} is found, and no record has that id"
        if any(
            partition.checkpoint is not None or partition.complete for partition in reading.finished
        ):
            yield SOURCE, "a partition has a new checkpoint, or is complete"
        for key, record in reading.by_version().items():
            yield from _judge_run(source, record, everything.get(key))


def _judge_run(source: AnySource, record: object, whole: object | None) -> Found:
    if whole is None:
        yield name_of(record), "a reading of everything lacks it"
        return
    # One run alone may not tell all that a reading of everything does.
    mapped = mapped_entities(source, [record])
    unread = {(entity.urn, aspect) for _, entity in mapped for aspect in entity.adds_only}
    if content_of(source, record, unread) != content_of(source, whole, unread):
        yield name_of(record), "asked for by its id, it is mapped to other entities"


CHECKS: Final[Mapping[Rule, Check[SourceSubject]]] = {
    Rule.LAZY: _lazy,
    Rule.YIELDS: _yields,
    Rule.ORDER: _order,
    Rule.REPEATABLE: _repeatable,
    Rule.VERSIONS: _versions,
    Rule.PURE: _pure,
    Rule.SKIPPABLE: _skippable,
    Rule.URNS: _urns,
    Rule.ASPECTS: _aspects,
    Rule.CLOSE: _close,
    Rule.CANCELLATION: _cancellation,
    Rule.PARTITIONS: _partitions,
    Rule.CHECK: _findings,
    Rule.ERRORS: _errors,
    Rule.DECLARED: _declared,
    Rule.FEATURES: _features,
    Rule.SHARDS: _shards,
    Rule.RUNS: _runs,
}
