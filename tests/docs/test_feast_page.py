"""What docs/reference/feature-stores.md says of Feast is what the code does."""

import re
from pathlib import Path

import pytest

from mlcat_ingest.sources.feast.messages import VALUE_TYPES
from mlcat_ingest.sources.feast.upstream import _BY_CLASS
from mlcat_ingest.sources.feast.views import feature_type

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "feature-stores.md").read_text()
FEAST = ROOT / "src" / "mlcat_ingest" / "sources" / "feast"


def test_every_note_is_explained() -> None:
    code = "".join(path.read_text() for path in FEAST.glob("*.py"))
    kinds = set(re.findall(r'Note\(\s*"(\w+)"', code))
    assert len(kinds) > 5
    assert kinds == set(re.findall(r"^\| `((?:source|entity|feature)_\w+)` \|", PAGE, re.MULTILINE))


def test_every_class_of_sources_is_in_the_table() -> None:
    reported = re.findall(r"^\| ([A-Z]\w+Source(?:, \w+Source)*) \|", PAGE, re.MULTILINE)
    assert {name for cell in reported for name in cell.split(", ")} == set(_BY_CLASS)


@pytest.mark.parametrize("number", sorted(VALUE_TYPES))
def test_every_value_type_is_what_the_page_says(number: int) -> None:
    name = VALUE_TYPES[number]
    rows = re.findall(r"^\| ([A-Z0-9_, ]+) \| ([A-Z]+) \|$", PAGE, re.MULTILINE)
    reported = {one: type_ for cell, type_ in rows for one in cell.split(", ")}
    if name.endswith("_LIST"):
        reported[name] = "SEQUENCE"
    elif name.endswith("_SET"):
        reported[name] = "SET"
    assert feature_type(number) == reported.get(name)
