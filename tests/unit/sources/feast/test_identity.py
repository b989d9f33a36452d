"""What a registry is known by, and what `check` says of it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.sources.base import Finished, ReadRequest
from mlcat_ingest.sources.feast.registry import split_registry
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import REGISTRY, config, registry
from support.feast_transports import database_of, grpc_server, listing, objects_of
from support.reading import records_of

RIDES = "0b5a3c1e-93a4-4d47-8f0e-3f0a7d4b9a01"
MEALS = "4f6c1d22-0a7b-4c59-9d38-6a1c55e0b7c2"
VISITS = '{"recently_visited_anonymous": "[]"}'


def project(name: str, created: int) -> dict[str, Any]:
    return {"spec": {"name": name}, "meta": {"created_timestamp": {"seconds": created}}}


def metadata(**ids: str) -> dict[str, Any]:
    return {"project_metadata": [{"project": name, "project_uuid": ids[name]} for name in ids]}


def key_of(path: Path, content: bytes, **options: Any) -> str:
    path.write_bytes(content)
    return FeastSource(config(registry=str(path), **options)).keys()[0]


def findings(path: Path, content: bytes | None, **options: Any) -> list[Finding]:
    if content is not None:
        path.write_bytes(content)
    return list(FeastSource(config(registry=str(path), **options)).check())


def test_two_registries_at_one_path_are_two_stores(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    found = [key_of(path, registry(**metadata(rides=uuid))) for uuid in (RIDES, MEALS)]
    assert found == [f"feast:{RIDES}:default", f"feast:{MEALS}:default"]


def test_one_registry_at_two_paths_is_one_store(tmp_path: Path) -> None:
    content = registry(**metadata(rides=RIDES))
    assert key_of(tmp_path / "a.db", content) == key_of(tmp_path / "b.db", content)


def test_a_project_that_is_added_to_a_registry_changes_nothing(tmp_path: Path) -> None:
    one, two = registry(**metadata(rides=RIDES)), registry(**metadata(rides=RIDES, meals=MEALS))
    assert key_of(tmp_path / "registry.db", one) == key_of(tmp_path / "registry.db", two)


@pytest.mark.parametrize("uuid", ["", VISITS, "rides"])
def test_a_registry_without_an_id_is_known_by_its_address(tmp_path: Path, uuid: str) -> None:
    path = tmp_path / "registry.db"
    address = f"feast:{path}:default"
    assert key_of(path, registry(**metadata(rides=uuid))) == address
    assert key_of(path, registry(projects=[{"spec": {"name": "rides"}}])) == address
    assert key_of(path, registry(**metadata(rides=uuid, meals=MEALS))) == f"feast:{MEALS}:default"


def test_a_file_without_uuids_is_known_by_the_moment_its_oldest_project_was_made(
    tmp_path: Path,
) -> None:
    path = tmp_path / "registry.db"
    rides, meals = project("rides", 1_700_000_000), project("meals", 1_700_000_001)
    found = [
        key_of(path, registry(projects=projects, **metadata(rides=VISITS)))
        for projects in ([rides], [rides, meals], [meals, rides], [meals])
    ]
    assert found[0] == found[1] == found[2] != found[3]
    assert str(tmp_path) not in "".join(found)


def test_metadata_that_cannot_be_decoded_is_no_end_of_the_registry(tmp_path: Path) -> None:
    view = registry(feature_views=[{"spec": {"name": "v", "project": "p"}}])
    path = tmp_path / "registry.db"
    content = b"\x7a\x03\x0a\x01\xff" + b"\x7a\x02\x0a\x09" + view
    assert key_of(path, content) == f"feast:{path}:default"
    assert len(list(records_of(FeastSource(config(registry=str(path)))))) == 1


def test_the_identity_that_a_recipe_gives_goes_before_that_of_the_registry(tmp_path: Path) -> None:
    content = registry(projects=[project("rides", 1)], **metadata(rides=RIDES))
    path = tmp_path / "registry.db"
    assert key_of(path, content, server_id="ours") == "feast:ours:default"
    (server_id,) = (one for one in findings(path, content, server_id="ours") if "id" in one.what)
    assert server_id.detail == "ours"


def test_a_database_is_known_by_the_project_that_was_made_first(tmp_path: Path) -> None:
    objects = [
        *objects_of(str(REGISTRY)),
        *split_registry(registry(**metadata(rides=RIDES, meals=MEALS))),
    ]
    address = database_of(objects, tmp_path / "registry.sqlite")
    with closing(sqlite3.connect(tmp_path / "registry.sqlite")) as connection, connection:
        newer = "UPDATE feast_metadata SET last_updated_timestamp = 2 WHERE project_id = 'rides'"
        connection.execute(newer)
    assert FeastSource(config(registry=address)).keys() == [f"feast:{MEALS}:default"]


def test_a_server_is_known_by_its_oldest_project_unless_it_may_hide_some() -> None:
    # As Feast's registry has it after each `feast apply` of the older one.
    projects = [project("meals", 20), project("rides", 10)]
    asked: Iterator[str] = iter((RIDES, MEALS))

    def answer(method: str, *_: Any) -> bytes | None:
        if method == "ListProjects":
            content = registry(projects=projects)
            return content.replace(b"\x8a\x01", b"\x0a")
        if method == "ListProjectMetadata":
            return registry(**metadata(any=next(asked))).replace(b"\x7a", b"\x0a", 1)
        return None if listing(method) is None else b""

    with grpc_server(answer) as port:
        registry_ = {"registry_type": "remote", "path": f"127.0.0.1:{port}"}
        assert FeastSource(config(registry=registry_)).keys() == [f"feast:{RIDES}:default"]
        hidden = FeastSource(config(registry=registry_, token="t0k3n"))
        assert hidden.keys() == [f"feast:127.0.0.1%3A{port}:default"]


def test_the_doctor_counts_what_each_project_holds(tmp_path: Path) -> None:
    content = registry(entities=[{"spec": {"name": "n"}}] * 2, **metadata(rides=RIDES))
    found = findings(tmp_path / "registry.db", content)
    assert [(one.what, one.outcome) for one in found] == [
        ("Feast registry", "ok"),
        ("Feast server id", "ok"),
        ("Feast project", "ok"),
    ]
    assert found[0].detail.endswith("readable: 2 objects")
    assert found[1].detail == RIDES
    assert found[2].detail == "none: 2 entities"


def test_the_doctor_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (found,) = findings(tmp_path / "no.db", None)
    assert found.outcome == "failed"
    assert found.hint is not None


def notes_of(source: FeastSource) -> list[str]:
    *_, last = source.read(ReadRequest())
    assert isinstance(last, Finished)
    return [note.detail for note in last.notes]


def test_a_registry_that_holds_nothing_is_called_empty(tmp_path: Path) -> None:
    path, content = tmp_path / "registry.db", registry(registry_schema_version="1")
    (found,) = findings(path, content)
    assert (found.outcome, "empty" in found.detail) == ("warning", True)
    (note,) = notes_of(FeastSource(config(registry=str(path))))
    assert f"{path}: the registry is empty: run `feast apply`" in note
    assert "filters" not in note


def test_a_registry_whose_tables_are_filtered_out_is_not_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    path.write_bytes(registry(feature_views=[{"spec": {"name": "v", "project": "p"}}]))
    for filters in ({"tables": {"deny": [".*"]}}, {"projects": {"allow": ["other"]}}):
        (note,) = notes_of(FeastSource(config(registry=str(path), **filters)))
        assert "no table passes the recipe's filters" in note
