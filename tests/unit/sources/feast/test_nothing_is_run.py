"""A registry whose functions are made to do harm when they are loaded."""

import os
import pickle
from pathlib import Path

import pytest

from mlcat_ingest.sources.base import Forgetful
from mlcat_ingest.sources.feast.raw import split_registry
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import REGISTRY, config


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


def test_a_pickled_function_is_never_loaded(registry: Path, tmp_path: Path) -> None:
    source = FeastSource(config(registry=str(registry)))
    entities = [
        entity
        for page in source.read(Forgetful())
        for record in page
        for entity in source.map(record)
    ]
    list(source.check())
    source.close()
    assert len(entities) == 78
    assert not (tmp_path / "harm").exists()


def test_the_function_would_do_its_harm(registry: Path, tmp_path: Path) -> None:
    content = registry.read_bytes()
    start = content.index(pickle.dumps(Harm(tmp_path / "harm")))
    pickle.loads(content[start:])  # noqa: S301  # it is ours
    assert (tmp_path / "harm").is_dir()


def test_nothing_that_can_run_code_is_imported_for_it() -> None:
    folder = Path(__file__).parents[4] / "src" / "mlcat_ingest" / "sources" / "feast"
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    for word in ("pickle", "dill", "exec(", "eval(", "import feast", "from feast"):
        assert word not in text
