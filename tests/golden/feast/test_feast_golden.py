"""All that a registry of every kind of thing becomes: one line an aspect."""

from pathlib import Path

from mlcat_ingest.metadata.urn import decoded_parts
from support.feast import entities_of_registry
from support.golden import as_lines, assert_valid
from support.merging import written

GOLDEN = Path(__file__).parent / "registry.jsonl"


def test_the_registry_gives_these_entities(*, update_golden: bool) -> None:
    found = as_lines(entities_of_registry())
    if update_golden:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_all_of_it_can_be_sent_and_is_valid() -> None:
    for entity in entities_of_registry():
        decoded_parts(entity.urn)
        assert_valid(written(entity))
