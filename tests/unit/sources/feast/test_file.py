"""A registry file is read whole and as of one moment, or an error says why not."""

import threading
import time
from pathlib import Path

import pytest

from mlcat_ingest.errors import (
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.feast.config import FeastConfig, RegistryConfig
from mlcat_ingest.sources.feast.files import LocalFile
from mlcat_ingest.sources.feast.source import transport_for

ENTITY = bytes([0x0A, 0x06, 0x0A, 0x04, 0x0A, 0x02]) + b"id"
"""A registry with one entity."""


def file_at(path: Path) -> LocalFile:
    return LocalFile(
        str(path), FeastConfig(registry=RegistryConfig(path=str(path)), max_bytes=1024)
    )


def test_the_objects_of_a_file_are_read_through_a_plain_path_and_a_file_address(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a b.db"
    path.write_bytes(ENTITY)
    for address in (str(path), path.as_uri()):
        transport = transport_for(FeastConfig.model_validate({"registry": address}))
        assert [(raw.kind, raw.name) for raw in transport.objects()] == [("entity", "id")]
        assert transport.server_id() == str(path)
        assert transport.requests_made() == 0
        transport.close()


def test_links_to_a_registry_are_the_same_registry(tmp_path: Path) -> None:
    (tmp_path / "real.db").write_bytes(ENTITY)
    (tmp_path / "link.db").symlink_to("real.db")
    assert file_at(tmp_path / "link.db").server_id() == str(tmp_path / "real.db")


def test_a_missing_file_a_folder_and_a_forbidden_file_say_what_to_do(tmp_path: Path) -> None:
    cases: list[tuple[Path, type[MlcatError], str]] = [
        (tmp_path / "no.db", RecipeError, "feast apply"),
        (tmp_path, RecipeError, "correct the path"),
        (tmp_path / "no.db" / "x", RecipeError, "feast apply"),
    ]
    for path, error, cure in cases:
        with pytest.raises(error) as raised:
            file_at(path).fetch()
        assert str(path) in raised.value.message
        assert cure in str(raised.value.hint)


def test_a_file_without_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(NotAuthorizedError, match="denied"):
        file_at(tmp_path / "registry.db").fetch()


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    path.write_bytes(bytes(2048))
    with pytest.raises(RecipeError, match=r"2,048 bytes.* 1,024 bytes") as raised:
        file_at(path).fetch()
    assert "max_bytes" in str(raised.value.hint)


def test_an_empty_file_is_waited_for_and_then_no_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.sources.feast.files._PAUSE_S", 0.001)
    path = tmp_path / "registry.db"
    path.write_bytes(b"")
    with pytest.raises(SourceUnavailableError, match="is empty"):
        file_at(path).fetch()


def test_a_file_that_is_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    path.write_bytes(b"")

    def write() -> None:
        time.sleep(0.15)
        path.write_bytes(ENTITY)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert file_at(path).fetch() == ENTITY
    finally:
        writer.join()


def test_what_is_no_registry_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    path.write_bytes(b"<!DOCTYPE html><p>please sign in")
    with pytest.raises(ProtocolMismatchError, match="not a Feast registry") as raised:
        list(file_at(path).objects())
    assert str(path) in raised.value.message
