"""Edits by people, worked out on what is stored when they are written."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.catalog.errors import (
    BadRequestError,
    CatalogError,
    InvalidProposalError,
    VersionConflictError,
)
from mlcat_ingest.catalog.store import edits
from mlcat_ingest.catalog.store.edits import Edit, make_edits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.proposal import NOT_STORED
from support.catalog_store import group, model, put

JANE = "urn:li:corpuser:jane"
TECHNICAL = "urn:li:ownershipType:__system__technical_owner"


@pytest.fixture(autouse=True)
def stored(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"description": "by the source"})
    for name in ("a", "b", "c"):
        put(store, f"urn:li:tag:{name}", tagProperties={"name": name})
    put(store, JANE, corpUserInfo={"active": True})


def edit(store: Store, *made: Edit, urns: Collection[str] = (model("m"),)) -> None:
    store.change(lambda sql: make_edits(sql, urns, made, JANE))


def value(store: Store, aspect: str, urn: str = model("m")) -> Any:
    found = store.get_many([urn], {aspect}).get(urn, {}).get(aspect)
    return None if found is None else found.value


def version(store: Store, aspect: str) -> int:
    return store.get_many([model("m")], {aspect})[model("m")][aspect].version


def owner(of_type: str | None, urn: str = JANE, kind: str = "CORP_USER") -> dict[str, Any]:
    return {"ownerUrn": urn, "ownerEntityType": kind, "type": of_type}


def tag(*names: str) -> Edit:
    return edits.add_labels("globalTags", [f"urn:li:tag:{name}" for name in names])


def test_edits_at_the_same_time_all_count(store: Store) -> None:
    put(store, model("m"), globalTags={"tags": []})
    names = [f"t{number}" for number in range(30)]
    for name in names:
        put(store, f"urn:li:tag:{name}", tagProperties={"name": name})
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: edit(store, tag(name)), names))
    found = {entry["tag"] for entry in value(store, "globalTags")["tags"]}
    assert found == {f"urn:li:tag:{name}" for name in names}


def test_the_writer_is_the_person_who_edits(store: Store) -> None:
    edit(store, edits.describe(model("m"), "by jane"))
    aspect = store.get_many([model("m")])[model("m")]["editableMlModelProperties"]
    assert (aspect.value, aspect.modified_by) == ({"description": "by jane"}, JANE)
    assert value(store, "mlModelProperties")["description"] == "by the source"


def test_what_changes_nothing_makes_no_version(store: Store) -> None:
    deprecation = {"deprecated": True, "note": "old"}
    made = (tag("a"), edits.add_owners([owner("TECHNICAL_OWNER")]), edits.deprecate(deprecation))
    for _ in range(2):
        edit(store, *made, edits.remove_labels("globalTags", ["urn:li:tag:b"]))
        assert [version(store, one.aspect) for one in made] == [1, 1, 1]


def test_nothing_is_made_of_a_removal_from_nothing(store: Store) -> None:
    edit(
        store,
        edits.remove_labels("globalTags", ["urn:li:tag:a"]),
        edits.remove_labels("glossaryTerms", ["urn:li:glossaryTerm:a"]),
        edits.remove_owners([JANE]),
        edits.remove_link("https://x.example"),
        edits.set_domain(None),
        edits.set_properties({}, ["urn:li:structuredProperty:p"]),
    )
    names = set(store.get_many([model("m")])[model("m")])
    assert names.isdisjoint({"globalTags", "glossaryTerms", "ownership", "institutionalMemory"})
    assert names.isdisjoint({"domains", "structuredProperties"})


def test_fields_of_other_entries_stay(store: Store) -> None:
    entry = {"tag": "urn:li:tag:a", "context": "kept"}
    put(store, model("m"), globalTags={"tags": [entry, {"tag": "urn:li:tag:c"}]})
    edit(store, tag("b", "b", "a"), edits.remove_labels("globalTags", []))
    edit(store, edits.remove_labels("globalTags", ["urn:li:tag:c"]))
    assert value(store, "globalTags") == {"tags": [entry, {"tag": "urn:li:tag:b"}]}


def test_an_owner_takes_the_place_of_the_same_owner_of_a_source(store: Store) -> None:
    source = {"owner": JANE, "type": "TECHNICAL_OWNER"}
    other = {"owner": "urn:li:corpuser:joe", "type": "TECHNICAL_OWNER"}
    put(store, model("m"), ownership={"owners": [source, other]})
    edit(store, edits.add_owners([owner("TECHNICAL_OWNER")]))
    manual = {**source, "typeUrn": TECHNICAL, "source": {"type": "MANUAL"}}
    assert value(store, "ownership")["owners"] == [other, manual]
    edit(store, edits.remove_owners([JANE], "urn:li:ownershipType:__system__none"))
    assert len(value(store, "ownership")["owners"]) == 2
    edit(store, edits.remove_owners([JANE], TECHNICAL))
    assert value(store, "ownership")["owners"] == [other]
    edit(store, edits.remove_owners([other["owner"]], TECHNICAL))
    assert value(store, "ownership")["owners"] == []


def test_an_edit_of_another_version_is_refused_and_all_with_it(store: Store) -> None:
    described = edits.describe(model("m"), "mine")
    edit(store, replace(described, expected_version=NOT_STORED))
    for expected in (NOT_STORED, "2"):
        with pytest.raises(VersionConflictError):
            edit(
                store, tag("a"), replace(edits.describe(model("m"), "x"), expected_version=expected)
            )
    assert value(store, "globalTags") is None
    assert value(store, "editableMlModelProperties") == {"description": "mine"}


def test_all_entities_are_edited_or_none(store: Store) -> None:
    put(store, model("n"), mlModelProperties={})
    urns = [model("m"), model("n")]
    with pytest.raises(BadRequestError, match=r"with urn .*,no,PROD\)\. Entity does not exist\.$"):
        edit(store, tag("a"), urns=[*urns, model("no")])
    assert value(store, "globalTags") is None
    edit(store, tag("a"), urns=urns)
    assert [value(store, "globalTags", urn) is None for urn in urns] == [False, False]


def test_a_structured_property_keeps_when_it_was_made(store: Store) -> None:
    urn = "urn:li:structuredProperty:p"
    put(store, urn, propertyDefinition={"qualifiedName": "p", "valueType": "urn:li:dataType:x",
                                        "entityTypes": []})  # fmt: skip
    edit(store, edits.set_properties({urn: [{"string": "x"}]}, ()))
    (made,) = value(store, "structuredProperties")["properties"]
    edit(store, edits.set_properties({urn: [{"double": 1.0}]}, ()))
    (changed,) = value(store, "structuredProperties")["properties"]
    assert changed["created"] == made["created"] == {**made["created"], "actor": JANE}
    assert changed["values"] == [{"double": 1.0}]
    edit(store, edits.set_properties({}, [urn]))
    assert value(store, "structuredProperties") == {"properties": []}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tag("none"), "Failed to validate label with urn urn:li:tag:none. Urn does not"),
        (lambda: edits.add_labels("globalTags", [JANE]), "does not match entity type tag.."),
        (lambda: edits.add_labels("globalTags", ["x"]), "'x' is not a URN"),
        (lambda: edits.remove_labels("globalTags", ["x"]), "'x' is not a URN"),
        (lambda: edits.describe("urn:li:tag:a", "x"), "are not described here"),
        (lambda: edits.add_link(model("m"), "javascript:alert(1)", "x"), "URL scheme 'javascript'"),
        (lambda: edits.add_link(model("m"), "nope", "x"), "URL scheme 'null' is not allowed."),
        (lambda: edits.add_link(model("m"), "https", "x"), "URL scheme 'null'"),
        (lambda: edits.set_domain("urn:li:domain:d"), f"Entity {model('m')} to Domain urn:li:"),
        (lambda: edits.set_domain(JANE), "is not the URN of a domain"),
        (lambda: edits.add_owners([owner(None)]), "Expected either type or"),
        (lambda: edits.add_owners([owner("NONE", kind="CORP_GROUP")]), "Expected a corp group"),
        (
            lambda: edits.add_owners([owner("NONE", f"{JANE}t")]),
            "Failed to change ownership for resource urn:li:corpuser:janet. Resource does not",
        ),
        (
            lambda: edits.add_owners([owner(None)], "urn:li:ownershipType:x"),
            "Custom Ownership type with urn urn:li:ownershipType:x does not exist.",
        ),
        (lambda: edits.deprecate({"deprecated": True, "replacement": "x"}), "'x' is not a URN"),
        (
            lambda: edits.set_properties({"urn:li:structuredProperty:no": []}, ()),
            "Property urn:li:structuredProperty:no does not exist.",
        ),
    ],
)
def test_edits_that_are_refused(store: Store, make: Callable[[], Edit], says: str) -> None:
    before = store.get_many([model("m")])
    with pytest.raises(CatalogError) as refused:
        edit(store, make())
    assert says in str(refused.value)
    assert refused.value.http_status == 400
    assert store.get_many([model("m")]) == before


def test_an_aspect_that_the_type_lacks_is_refused(store: Store) -> None:
    put(store, "urn:li:domain:d", domainProperties={"name": "d"})
    with pytest.raises(InvalidProposalError, match="Unknown aspect globalTags"):
        edit(store, tag("a"), urns=["urn:li:domain:d"])


@pytest.mark.parametrize("urn", [model("m"), group("g")])
def test_links_differ_by_address_and_label(store: Store, urn: str) -> None:
    put(store, urn, status={"removed": False})
    for label in ("A", "B"):
        edit(store, edits.add_link(urn, "https://x.example", label), urns=[urn])
    with pytest.raises(BadRequestError, match="with label 'B' already exists"):
        edit(store, edits.add_link(urn, "https://x.example", "B"), urns=[urn])
    edit(store, edits.remove_link("https://x.example", "A"), urns=[urn])
    (left,) = value(store, "institutionalMemory", urn)["elements"]
    assert (left["description"], left["createStamp"]["actor"]) == ("B", JANE)
    edit(store, edits.remove_link("https://x.example"), urns=[urn])
    assert value(store, "institutionalMemory", urn) == {"elements": []}
