"""`docs/reference/catalog.md` says what the catalog does: its endpoints and its limits."""

from dataclasses import asdict
from pathlib import Path

from mlcat_ingest.catalog import limits
from mlcat_ingest.catalog.web.rest.routes import rest_endpoints
from mlcat_ingest.metadata_tests.definition import (
    _PATTERN_BYTES,
    MAX_PATTERNS,
    PATTERN_CHARS,
    PATTERN_TEXT_CHARS,
)
from support.catalog_page import clients_of_endpoints, rows
from support.rest_client import rest_client


def test_the_page_lists_every_endpoint(tmp_path: Path) -> None:
    with rest_client(tmp_path / "c.db") as client:
        endpoints = rest_endpoints(client.store, client.tasks, limits.DEFAULT_LIMITS)
    declared = [
        f"{one.method} {one.path}" + (f"?action={one.action}" if one.action else "")
        for one in endpoints
    ]
    assert sorted(clients_of_endpoints()) == sorted(declared)


def test_the_page_lists_every_limit_with_its_value() -> None:
    constants = {
        name: value
        for name, value in vars(limits).items()
        if name.isupper() and isinstance(value, int | float)
    }
    # Those of regular expressions hold for metadata tests wherever they are evaluated.
    patterns = {
        "PATTERNS": MAX_PATTERNS,
        "PATTERN_CHARS": PATTERN_CHARS,
        "PATTERN_BYTES": _PATTERN_BYTES,
        "PATTERN_TEXT_CHARS": PATTERN_TEXT_CHARS,
    }
    documented = {name: float(value) for name, value, *_ in rows("## Limits")}
    assert documented == asdict(limits.DEFAULT_LIMITS) | constants | patterns
