"""The rules of declared capabilities."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from mlcat_ingest.core.text import plural
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.read.pages import name_of
from mlcat_ingest.sources.base import (
    Capability,
    Everything,
    FeaturesOnly,
    Remainder,
    Runs,
    Shards,
    Source,
)
from mlcat_ingest.testing.conformance.ingests import Ingests, differing
from mlcat_ingest.testing.conformance.readings import (
    AnySource,
    SourceSubject,
    content_of,
    mapped_entities,
    read_all,
)
from mlcat_ingest.testing.conformance.rules import Rule, Violation

METHODS: Final = {
    Capability.FEATURES: "coming_tables",
    Capability.MISSING: "missing",
    Capability.SHARDS: "shards",
}
"""The method that implements each capability; `RUNS` is a scope of `read` alone."""

_UNKNOWN_ID: Final = "mlcat-conformance-unknown"


def check_declared(subject: SourceSubject) -> Iterator[Violation]:
    """Compare the declared capabilities with the methods that the class overrides."""
    with closing(subject.make()) as source:
        kind = type(source)
    for capability, method in METHODS.items():
        overrides = getattr(kind, method) is not getattr(Source, method)
        declares = capability in kind.capabilities
        if overrides != declares:
            does, lacks = (f"implements `{method}`", f"declare Capability.{capability.name}")
            if declares:
                does, lacks = (f"declares {capability.name}", f"implement `{method}`")
            yield Violation(Rule.DECLARED, kind.__name__, f"{does}, and does not {lacks}")


def check_features(subject: SourceSubject) -> Iterator[Violation]:
    """Compare the coming tables and the index with the tables that are read."""
    with closing(subject.make()) as source:
        if Capability.FEATURES not in source.capabilities:
            return
        coming = {table.urn: table.source for table in source.coming_tables()}
        reading = read_all(source)
        urns = {entity.urn for _, entity in mapped_entities(source, reading.records)}
        only = read_all(source, FeaturesOnly())
    tables = {urn for urn in urns if entity_type_of(urn) == "mlFeatureTable"}
    for urn in sorted(tables ^ coming.keys()):
        words = "is read" if urn in tables else "is not read"
        yield Violation(Rule.FEATURES, urn, f"it {words}, contrary to `coming_tables`")
    keys = {partition.key for partition in reading.partitions}
    for urn, key in coming.items():
        if key not in keys:
            yield Violation(Rule.FEATURES, urn, f"`coming_tables` names the source {key}")
    if all(partition.index is None for partition in reading.finished):
        yield Violation(Rule.FEATURES, "the source", "no Finished has an index")
    if only.records or only.asked:
        words = "FeaturesOnly yields records, or asks for a partition"
        yield Violation(Rule.FEATURES, "the source", words)
    if all(partition.index is None for partition in only.finished):
        yield Violation(Rule.FEATURES, "the source", "FeaturesOnly ends without an index")


def check_shards(subject: SourceSubject) -> Iterator[Violation]:
    """Read shard by shard and the rest, and compare with everything."""
    with closing(subject.make()) as source:
        if Capability.SHARDS not in source.capabilities:
            return
        keys = [shard.key for shard in source.shards()]
    for key in {key for key in keys if keys.count(key) > 1}:
        yield Violation(Rule.SHARDS, f"the shard {key}", "it is yielded twice")
    seen: dict[tuple[str, str], str] = {}
    for key in keys:
        yield from _judge_shard(subject, key, seen)
    whole, divided = Ingests(subject.make), Ingests(subject.make)
    whole.run(Everything())
    for key in keys:
        divided.run(Shards((key,)))
    divided.run(Remainder())
    for urn in differing(whole.live, divided.live):
        words = "shards and the rest lead to another result than everything"
        yield Violation(Rule.SHARDS, urn, words)


def _judge_shard(
    subject: SourceSubject, key: str, seen: dict[tuple[str, str], str]
) -> Iterator[Violation]:
    with closing(subject.make()) as source:
        reading = read_all(source, Shards((key,)))
    if reading.asked:
        yield Violation(Rule.SHARDS, f"the shard {key}", "it asks for a partition")
    if not reading.records:
        yield Violation(Rule.SHARDS, f"the shard {key}", "it contains no record")
    for version, record in reading.by_version().items():
        other = seen.setdefault(version, key)
        if other != key:
            words = f"it is in the shards {other} and {key}"
            yield Violation(Rule.SHARDS, name_of(record), words)


def check_runs(subject: SourceSubject) -> Iterator[Violation]:
    """Ask for records by all ids there are, and by one that there is not."""
    with closing(subject.make()) as source:
        if Capability.RUNS not in source.capabilities:
            return
        everything = read_all(source).by_version()
        ids = {id_ for _, id_ in everything}
        reading = read_all(source, Runs([*sorted(ids), _UNKNOWN_ID]))
        found_ids = {id_ for partition in reading.finished for id_ in partition.found_ids}
        if not found_ids:
            yield Violation(Rule.RUNS, "the source", f"none of {plural(len(ids), 'id')} is found")
        for id_ in sorted(found_ids - ids):
            yield Violation(Rule.RUNS, "the source", f"{id_} is found, and no record has that id")
        if any(
            partition.checkpoint is not None or partition.complete for partition in reading.finished
        ):
            words = "a partition has a new checkpoint, or is complete"
            yield Violation(Rule.RUNS, "the source", words)
        for key, record in reading.by_version().items():
            yield from _judge_run(source, record, everything.get(key))


def _judge_run(source: AnySource, record: object, whole: object | None) -> Iterator[Violation]:
    if whole is None:
        yield Violation(Rule.RUNS, name_of(record), "a reading of everything lacks it")
        return
    # One run alone may not tell all that a reading of everything does.
    mapped = mapped_entities(source, [record])
    unread = {(entity.urn, aspect) for _, entity in mapped for aspect in entity.adds_only}
    if content_of(source, record, unread) != content_of(source, whole, unread):
        words = "asked for by its id, it is mapped to other entities"
        yield Violation(Rule.RUNS, name_of(record), words)
