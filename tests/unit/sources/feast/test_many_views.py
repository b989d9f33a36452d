"""A registry of many views: what is held of it grows with the registry, not with its tables."""

import gc
import tracemalloc
from typing import Any

import pytest

from mlcat_ingest.sources.definitions.tables import FeatureTable
from mlcat_ingest.sources.feast.registry import MESSAGES, split_registry
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import Objects, config

FEATURES = 20


def registry(views: int) -> bytes:
    content = MESSAGES["Registry"]()
    for number in range(views):
        snowflake = {"database": "D", "schema": "S", "table": f"T{number}"}
        fields = [
            {"name": f"f{one}", "value_type": 5, "tags": {"a": "b"}} for one in range(FEATURES)
        ]
        source: dict[str, Any] = {"name": f"s{number}", "type": 8, "snowflake_options": snowflake}
        spec = {"name": f"v{number}", "project": "p", "batch_source": source, "features": fields}
        content.feature_views.add(spec=spec)
        content.data_sources.add(**source, project="p")
    serialized: bytes = content.SerializeToString()
    return serialized


def peak_bytes(views: int) -> int:
    """Read a registry a table at a time; return the most that Python's objects took."""
    content = registry(views)
    gc.collect()
    tracemalloc.start()
    try:
        source = FeastSource(config(), Objects(split_registry(content)))
        found = sum(
            len(one.features) for one in source.definitions() if isinstance(one, FeatureTable)
        )
        assert found == views * FEATURES
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(120)
def test_of_a_table_only_its_bytes_and_its_sources_stay() -> None:
    """A table with its twenty features takes more than 10 kB."""
    grown = peak_bytes(1_000) - peak_bytes(200)
    assert grown < 800 * 3_000
