"""The proposals of the golden files, as the mappings of MLflow and Feast make them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"
FEAST = GOLDEN / "feast" / "registry.jsonl"
FILES = [*sorted(GOLDEN.glob("*/*/proposals.json")), FEAST]


def proposals_of(file: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield the URN, the aspect's name and its value of each proposal in a golden file."""
    text = file.read_text(encoding="utf-8")
    if file == FEAST:
        for line in text.splitlines():
            named = json.loads(line)
            urn = named.pop("urn")
            yield from ((urn, name, aspect) for name, aspect in named.items() if name != "note")
        return
    for entity in json.loads(text):
        for name, aspect in entity["aspects"].items():
            yield entity["urn"], name, aspect
