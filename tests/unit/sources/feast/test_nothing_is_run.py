"""A registry whose functions are made to do harm when they are loaded."""

import os
import pickle
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.sources.feast.registry import split_registry
from mlcat_ingest.sources.feast.source import FeastSource
from support.commands import ended
from support.feast import REGISTRY, config
from support.reading import records_of


class Harm:
    """What, unpickled, makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def field(number: int, content: bytes) -> bytes:
    """Return a field of bytes as it stands in a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


def harmful(content: bytes, marker: Path) -> bytes:
    """Return a registry whose views have, beside their own, functions that make `marker`."""
    body = field(2, pickle.dumps(Harm(marker)))
    text = field(3, f"import os; os.mkdir({str(marker)!r})".encode())
    function = field(1, b"harm") + body + text
    lists = {"feature_view": 6, "stream_feature_view": 14, "on_demand_feature_view": 8}
    # Where each kind keeps its function, and where all keep their transformation.
    old = {"feature_view": 15, "stream_feature_view": 13, "on_demand_feature_view": 5}
    new = {"feature_view": 15, "stream_feature_view": 17, "on_demand_feature_view": 10}
    added = b""
    for one in split_registry(content):
        if one.kind in lists:
            spec = field(old[one.kind], function) + field(new[one.kind], field(1, function))
            # A message of which a field comes twice is both of them, merged.
            added += field(lists[one.kind], one.proto + field(1, spec))
        elif one.kind == "entity":
            added += field(1, one.proto)
    return added


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "registry.db"
    path.write_bytes(harmful(REGISTRY.read_bytes(), tmp_path / "harm"))
    return path


def entities_of(registry: Path) -> list[str]:
    """Return the URNs of all that a registry becomes."""
    source = FeastSource(config(registry=str(registry)))
    with closing(source):
        list(source.check())
        return [entity.urn for record in records_of(source) for entity in source.map(record)]


def test_a_pickled_function_is_never_loaded(registry: Path, tmp_path: Path) -> None:
    assert entities_of(registry) == entities_of(REGISTRY)
    assert not (tmp_path / "harm").exists()


def test_the_function_would_do_its_harm(registry: Path, tmp_path: Path) -> None:
    content = registry.read_bytes()
    start = content.index(pickle.dumps(Harm(tmp_path / "harm")))
    pickle.loads(content[start:])  # noqa: S301  # it is ours
    assert (tmp_path / "harm").is_dir()


WATCHED = """
import sys
before = set(sys.modules)
events = []
sys.addaudithook(lambda name, arguments: events.append((name, arguments)))
from mlcat_ingest.sources.base import Page, ReadRequest
from mlcat_ingest.sources.feast.source import FeastSource
from mlcat_ingest.sources.feast.config import FeastConfig
source = FeastSource(FeastConfig(registry=sys.argv[1]))
list(source.check())
begun = len(events)
pages = [one for one in source.read(ReadRequest()) if isinstance(one, Page)]
records = [one for page in pages for one in page.records]
entities = [entity for record in records for entity in source.map(record)]
source.close()
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
assert entities
assert not loaded & {"feast", "dill", "cloudpickle"}, loaded
assert not [one for one in events if one[0] == "pickle.find_class"]
assert not [one for one in events[begun:] if one[0] == "os.mkdir"]
"""


@pytest.mark.process
def test_reading_loads_neither_feast_nor_a_pickled_name(registry: Path) -> None:
    ended([sys.executable, "-c", WATCHED, str(registry)])
