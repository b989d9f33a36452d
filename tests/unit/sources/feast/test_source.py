"""The source over the registry that Feast made: filters, and what they keep from removal."""

from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.base import Unlisted
from mlcat_ingest.sources.definitions.model import Broken
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import config, registry
from support.reading import records_of

HEAD = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,"


def source_of(path: Path, content: bytes, **options: Any) -> FeastSource:
    path.write_bytes(content)
    return FeastSource(config(registry=str(path), **options))


def tables(source: FeastSource) -> list[str]:
    found: list[Entity] = []
    for record in records_of(source):
        if not isinstance(record, Broken):
            found.extend(source.map(record))
    return [one.urn[len(HEAD) : -1] for one in found if one.urn.startswith(HEAD)]


def gone(source: FeastSource, *names: str) -> list[str]:
    unlisted = [Unlisted(f"{HEAD}{name})", {}) for name in names]
    return [one.urn[len(HEAD) : -1] for one in source.missing("part", unlisted)]


CONTENT = registry(
    feature_views=[{"spec": {"name": name, "project": "rides"}} for name in ("a", "b")]
    + [{"spec": {"name": "c", "project": "meals"}}],
    label_views=[{"spec": {"name": "labels", "project": "rides"}}],
)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["rides.a", "rides.b", "meals.c"]),
        ({"label_views": True}, ["rides.a", "rides.b", "meals.c", "rides.labels"]),
        ({"projects": {"allow": ["rides"]}}, ["rides.a", "rides.b"]),
        ({"tables": {"deny": ["a"]}}, ["rides.b", "meals.c"]),
        ({"label_views": True, "tables": {"deny": ["l.*"]}}, ["rides.a", "rides.b", "meals.c"]),
    ],
)
def test_what_a_filter_leaves_out_is_not_read_and_not_gone(
    tmp_path: Path, options: dict[str, Any], wanted: list[str]
) -> None:
    source = source_of(tmp_path / "registry.db", CONTENT, **options)
    assert tables(source) == wanted
    out = {"rides.a", "rides.b", "meals.c", "rides.labels"} - set(wanted)
    assert gone(source, *sorted(out), "rides.gone") == ["rides.gone"]


def test_the_tables_that_come_are_those_of_the_filters(tmp_path: Path) -> None:
    source = source_of(tmp_path / "registry.db", CONTENT, projects={"allow": ["meals"]})
    assert [table.name for table in source.coming_tables()] == ["meals.c"]
    assert tables(source) == ["meals.c"]


def test_nothing_is_gone_while_something_cannot_be_read(tmp_path: Path) -> None:
    bad = b"\x32\x0b\x0a\x09\x0a\x03bad\x12\x02\xff\xff"  # a view whose project is no text
    source = source_of(tmp_path / "registry.db", CONTENT + bad)
    records = list(records_of(source))
    failures = [record for record in records if isinstance(record, Broken)]
    assert len(failures) == 1
    with pytest.raises(RecordError, match="cannot be decoded"):
        list(source.map(failures[0]))
    assert gone(source, "rides.gone") == []


def test_what_is_broken_in_a_project_that_is_left_out_is_no_error(tmp_path: Path) -> None:
    bad = b"\x32\x12\x0a\x10\x0a\x03bad\x12\x05meals\x1a\x02\xff\xff"
    source = source_of(tmp_path / "registry.db", CONTENT + bad, projects={"allow": ["rides"]})
    records = list(records_of(source))
    assert not [record for record in records if isinstance(record, Broken)]
    # It may have been there before the filter was.
    assert gone(source, "meals.bad") == []


@pytest.mark.parametrize(
    ("options", "removed"),
    [
        ({"registry": "feast:6570"}, 1),
        ({"registry": "feast:6570", "token": "t"}, 0),
        ({"registry": "http://feast:6572", "headers": {"X-User": "me"}}, 0),
        ({"registry": "grpcs://feast", "client_cert": "me.pem"}, 0),
        ({"registry": "s3://bucket/registry.db", "token": "t"}, 1),
    ],
)
def test_what_a_server_with_permissions_does_not_list_may_still_be_there(
    options: dict[str, object], removed: int
) -> None:
    source = FeastSource(config(**options))
    source._there = set()
    assert len(gone(source, "rides.surge")) == removed
    source.close()
