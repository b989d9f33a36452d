"""The rules of `map`, and of the entities that it returns."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import SkippableError
from mlcat_ingest.metadata.codec import plain
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.pipeline.read.pages import name_of
from mlcat_ingest.testing.conformance.ingests import Ingests
from mlcat_ingest.testing.conformance.readings import (
    SourceSubject,
    content_of,
    entities_of,
    read_all,
    snapshot,
)
from mlcat_ingest.testing.conformance.rules import Rule, Violation, attempt, words_of


def check_pure(subject: SourceSubject) -> Iterator[Violation]:
    """Map each record twice, in another order, and after `close`."""
    source = subject.make()
    records = read_all(source).records
    requests = source.requests_made()
    contents: list[str] = []
    for record in records:
        before = snapshot(record)
        contents.append(content_of(source, record))
        if snapshot(record) != before:
            yield Violation(Rule.PURE, name_of(record), "`map` changed the record")
    if source.requests_made() != requests:
        words = f"`map` made {plural(source.requests_made() - requests, 'request')}"
        yield Violation(Rule.PURE, "the source", words)
    again = [content_of(source, record) for record in reversed(records)][::-1]
    source.close()
    closed = [content_of(source, record) for record in records]
    for record, first, second, third in zip(records, contents, again, closed, strict=True):
        if first != second:
            yield Violation(Rule.PURE, name_of(record), "mapped twice, it gives other entities")
        elif first != third:
            yield Violation(Rule.PURE, name_of(record), "after `close` it gives other entities")


def check_skippable(subject: SourceSubject) -> Iterator[Violation]:
    """Look at the errors of `map`."""
    with closing(subject.make()) as source:
        for record in read_all(source).records:
            entities = entities_of(source, record)
            if isinstance(entities, Exception) and not isinstance(entities, SkippableError):
                yield Violation(Rule.SKIPPABLE, name_of(record), words_of(entities))
        for record in subject.unmappable:
            entities = entities_of(source, record)
            if not isinstance(entities, Exception):
                words = (
                    f"it is unusable, and mapped to {plural(len(entities), 'entity', 'entities')}"
                )
                yield Violation(Rule.SKIPPABLE, name_of(record), words)
            elif not isinstance(entities, SkippableError):
                yield Violation(Rule.SKIPPABLE, name_of(record), words_of(entities))


def check_entities(subject: SourceSubject) -> Iterator[Violation]:
    """Look at the URN of each entity, and validate the proposals that a run makes of them."""
    makers: dict[str, str] = {}
    with closing(subject.make()) as source:
        for record in read_all(source).records:
            entities = entities_of(source, record)
            for entity in () if isinstance(entities, Exception) else entities:
                makers.setdefault(getattr(entity, "urn", ""), name_of(record))
                yield from _judge_entity(record, entity)
    runs = Ingests(subject.make)
    runs.run()
    for proposal in (written for request in runs.catalog.writes for written in request):
        urn, name = proposal.entity_urn, proposal.aspect_name
        problems = [
            str(problem)
            for problem in validate_aspect(entity_type_of(urn), name, plain(proposal.aspect))
        ]
        encoded = attempt(proposal.wire)
        if isinstance(encoded, Exception):
            problems.append(words_of(encoded))
        for problem in problems:
            yield Violation(Rule.ASPECTS, makers.get(urn, urn), f"{urn}: {name}: {problem}")


def _judge_entity(record: Any, entity: object) -> Iterator[Violation]:
    if not isinstance(entity, Entity):
        words = f"`map` returns {type(entity).__name__}, not Entity"
        yield Violation(Rule.ASPECTS, name_of(record), words)
        return
    parts = attempt(lambda: check(entity.urn))
    if isinstance(parts, Exception):
        yield Violation(Rule.URNS, name_of(record), words_of(parts))
    elif (entity_type := entity_type_of(entity.urn)) not in ENTITY_TYPES:
        yield Violation(Rule.URNS, name_of(record), f"{entity.urn}: unknown type {entity_type}")
