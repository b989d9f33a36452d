"""The proposals of the golden files: of mappings, enrichment, evaluation and run reports."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = [*sorted(GOLDEN.glob("*/*/proposals.json")), *sorted(GOLDEN.glob("*/*.jsonl"))]


def as_lines(entities: Iterable[Entity]) -> str:
    """Return the text of a golden file of lines: one line an aspect, and one a note."""
    lines = []
    for entity in entities:
        for name, aspect in entity.aspects.items():
            lines.append({"urn": entity.urn, name: aspect})
        lines.extend({"urn": entity.urn, "note": list(note)} for note in entity.notes)
    return "".join(json.dumps(line, ensure_ascii=False, default=list) + "\n" for line in lines)


def assert_valid(proposals: Iterable[Proposal]) -> None:
    """Assert that the URNs of some proposals are valid, and their aspects fit them."""
    for one in proposals:
        check(one.entity_urn)
        kind = entity_type_of(one.entity_urn)
        assert validate_aspect(kind, one.aspect_name, one.aspect) == []


def proposals_of(file: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield the URN, the aspect's name and its value of each proposal in a golden file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".jsonl":
        for line in text.splitlines():
            named = json.loads(line)
            urn = named.pop("urn")
            for name, aspect in named.items():
                if name != "note":
                    # A field that the source leaves empty is not sent.
                    sent = {field: value for field, value in aspect.items() if value is not None}
                    yield urn, name, sent
        return
    for entity in json.loads(text):
        for name, aspect in entity["aspects"].items():
            yield entity["urn"], name, aspect
