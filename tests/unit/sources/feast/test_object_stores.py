"""Object stores by way of fsspec: its memory store stands for those that need an account."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mlcat_ingest.errors import (
    AuthenticationError,
    MissingExtraError,
    MlcatError,
    NotAuthorizedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.feast.files import StoredObject, _in_fsspec
from support.feast import REGISTRY
from support.feast_transports import objects_of, transport_of

fsspec = pytest.importorskip("fsspec")

ADDRESS = "memory://bucket/registry.db"


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.pipe_file("/bucket/registry.db", REGISTRY.read_bytes())
    yield system
    system.rm("/bucket", recursive=True)


@pytest.mark.usefixtures("memory")
def test_an_object_holds_the_same_as_the_file() -> None:
    assert objects_of(ADDRESS) == objects_of(str(REGISTRY))
    assert transport_of(ADDRESS).server_id() == "memory/bucket/registry.db"


@pytest.mark.usefixtures("memory")
def test_a_missing_object_and_one_beyond_the_limit_are_errors_of_the_recipe() -> None:
    with pytest.raises(RecipeError, match="no registry at memory://bucket/none"):
        objects_of("memory://bucket/none")
    with pytest.raises(RecipeError, match="2,048 bytes"):
        objects_of(ADDRESS, max_bytes=2048)


def test_an_object_that_arrives_in_part_or_changes_meanwhile_is_not_read(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = REGISTRY.read_bytes()
    monkeypatch.setattr(type(memory), "cat_file", lambda *_: content[:604])
    with pytest.raises(SourceUnavailableError, match=f"after 604 of {len(content):,} bytes"):
        objects_of(ADDRESS)

    def overwritten(system: Any, path: str) -> bytes:
        system.pipe_file(path, content + b"more")
        return content

    monkeypatch.setattr(type(memory), "cat_file", overwritten)
    with pytest.raises(SourceUnavailableError, match="changed"):
        objects_of(ADDRESS)


@pytest.mark.parametrize(
    ("address", "module", "extra"),
    [
        ("gs://b/registry.db", "gcsfs", "gcs"),
        ("az://c/registry.db", "adlfs", "azure"),
        ("wasbs://c@a.blob.core.windows.net/registry.db", "adlfs", "azure"),
        ("https://a.blob.core.windows.net/c/registry.db", "adlfs", "azure"),
    ],
)
def test_a_back_end_that_is_not_installed_is_named_by_its_extra(
    address: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError) as raised:
        objects_of(address)
    assert raised.value.extra == extra


def test_a_store_that_fsspec_does_not_know_is_an_error_of_the_recipe() -> None:
    with pytest.raises(RecipeError, match="Protocol not known: nostore"):
        objects_of("nostore://b/k")


class GoogleAuthError(Exception):
    """As the class of that name that Google's library raises."""


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (PermissionError("Forbidden"), NotAuthorizedError),
        (OSError("Forbidden: b/registry.db"), NotAuthorizedError),
        (OSError("connection broken"), SourceUnavailableError),
        (TimeoutError(), SourceUnavailableError),
        (GoogleAuthError("t0ken"), AuthenticationError),
    ],
)
def test_what_goes_wrong_in_a_store_is_reported_with_its_cure(
    memory: Any, failure: Exception, error: type[MlcatError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(type(memory), "cat_file", fail)
    monkeypatch.setattr(
        "mlcat_ingest.sources.feast.files._errors",
        lambda: (OSError, GoogleAuthError),
    )
    with pytest.raises(error) as raised:
        objects_of(ADDRESS)
    assert ADDRESS in raised.value.message
    assert raised.value.hint


def test_azure_is_asked_as_whoever_the_machine_is_unless_credentials_are_given() -> None:
    own = _in_fsspec("https://acc.blob.core.windows.net/c/f/registry.db", {})
    assert own == ("az://c/f/registry.db", {"account_name": "acc", "anon": False})
    keyed = _in_fsspec("abfss://c@acc.dfs.core.windows.net/r.db", {"account_key": "k"})
    assert keyed == ("abfss://c@acc.dfs.core.windows.net/r.db", {"account_key": "k"})
    assert _in_fsspec("wasbs://c@acc.blob.core.windows.net/r.db", {})[1]["account_name"] == "acc"
    assert _in_fsspec("gs://b/r.db", {}) == ("gs://b/r.db", {})


def test_the_identity_in_azure_names_the_account() -> None:
    given: Any = transport_of("https://acc.blob.core.windows.net/c/r.db")
    assert isinstance(given, StoredObject)
    assert given.server_id() == "az/acc/c/r.db"
