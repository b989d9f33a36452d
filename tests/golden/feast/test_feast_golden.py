"""All that a registry of every kind of thing becomes: one line an aspect."""

import json
from collections.abc import Iterable
from pathlib import Path

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of, parse
from mlcat_ingest.metadata.validate import validate_aspect
from support.feast import entities_of_registry
from support.merging import written

GOLDEN = Path(__file__).parent / "registry.jsonl"


def shown(entities: Iterable[Entity]) -> str:
    lines = []
    for entity in entities:
        for name, aspect in entity.aspects.items():
            lines.append({"urn": entity.urn, name: aspect})
        lines.extend({"urn": entity.urn, "note": list(note)} for note in entity.notes)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def test_the_registry_gives_these_entities(*, update_golden: bool) -> None:
    found = shown(entities_of_registry())
    if update_golden:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_all_of_it_can_be_sent_and_is_valid() -> None:
    for entity in entities_of_registry():
        parse(entity.urn)
        for proposal in written(entity):
            kind = entity_type_of(entity.urn)
            assert validate_aspect(kind, proposal.aspect_name, proposal.aspect) == []
