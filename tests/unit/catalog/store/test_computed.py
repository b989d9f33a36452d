"""What the catalog computes of owners and domains."""

from typing import Any

import pytest

from mlcat_ingest.catalog.errors import ComputedFieldError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import model

M = model("m")
A = "urn:li:corpuser:a"


def write(store: Store, aspect: str, value: dict[str, Any]) -> int:
    return store.write([Write(M, aspect, value)])[0].version


def stored(store: Store, aspect: str) -> Any:
    return store.get_many([M], [aspect])[M][aspect].value


def test_a_write_without_what_is_computed_changes_nothing(store: Store) -> None:
    for aspect, value in (
        ("ownership", {"owners": [{"owner": A, "type": "DATAOWNER"}]}),
        ("domains", {"domains": ["urn:li:domain:a"]}),
    ):
        assert [write(store, aspect, value) for _ in range(2)] == [1, 1]


def domains(*names: str, associations: tuple[str, ...] | None = None) -> dict[str, Any]:
    value: dict[str, Any] = {"domains": [f"urn:li:domain:{name}" for name in names]}
    if associations is not None:
        entries = [{"domain": f"urn:li:domain:{name}"} for name in associations]
        value["domainAssociations"] = entries
    return value


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (domains("a", "b"), "ab"),
        (domains(), ""),
        (domains("b", associations=("a",)), "b"),  # the list changed
        (domains("a", associations=("b",)), "b"),  # the associations changed
        (domains(associations=("c",)), "c"),
    ],
)
def test_the_list_of_domains_that_changed_decides(
    store: Store, sent: dict[str, Any], kept: str
) -> None:
    write(store, "domains", domains("a"))
    write(store, "domains", sent)
    assert stored(store, "domains") == domains(*kept, associations=tuple(kept))


def test_both_lists_of_domains_cannot_change_at_once(store: Store) -> None:
    with pytest.raises(ComputedFieldError, match="cannot be changed together"):
        write(store, "domains", domains("a", associations=("b",)))


@pytest.mark.parametrize(
    ("aspect", "value"),
    [
        ("ownership", {}),
        ("ownership", {"owners": 1}),
        ("ownership", {"owners": [{"owner": A}]}),
        ("domains", {"domains": None}),
    ],
)
def test_nothing_is_computed_of_an_aspect_of_another_shape(
    store: Store, aspect: str, value: dict[str, Any]
) -> None:
    for urn in (M, "urn:li:chart:(looker,1)"):
        with pytest.raises(InvalidProposalError, match="Failed to validate record"):
            store.write([Write(urn, aspect, value)])
