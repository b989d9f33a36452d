"""The page of a registered model: its versions with alias, stage and run, the aliases on top."""

import json

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.text import visible
from support.catalog_store import group, model, put, statements
from support.names import HOSTILE
from support.pages import at, page

CHURN = group("registered:churn")


def put_version(store: Store, number: int, *aliases: str, stage: str = "") -> str:
    custom = {"mlflow.run_id": f"r{number}", "mlflow.run_model": model(f"r{number}")}
    if aliases:
        custom["mlflow.aliases"] = json.dumps([f"churn@{alias}" for alias in aliases])
    put(store, model(f"r{number}"), mlModelProperties={"name": f"hare-{number}"})
    tags = [{"tag": f"urn:li:tag:mlflow_{stage}"}] if stage else []
    return put(
        store,
        model(f"churn_{number}"),
        mlModelProperties={
            "name": f"churn_{number}",
            "description": "Who leaves.",
            "version": {"versionTag": str(number)},
            "groups": [CHURN],
            "customProperties": custom,
            "created": {"time": 1_700_000_000_000 + number},
        },
        versionProperties={
            "versionSet": "urn:li:versionSet:(churn,mlModel)",
            "version": {"versionTag": str(number)},
            "sortId": f"{number:010}",
            "aliases": [{"versionTag": alias} for alias in aliases],
        },
        subTypes={"typeNames": ["Model Version"]},
        globalTags={"tags": [{"tag": "urn:li:tag:gold"}, *tags]},
    )


def put_model(store: Store, aliases: str) -> None:
    custom = {"mlflow.aliases": aliases}
    properties = {"name": "churn", "description": "Who leaves.", "customProperties": custom}
    put(store, CHURN, mlModelGroupProperties=properties)


def test_versions_have_their_alias_stage_run_and_date(store: Store) -> None:
    put_model(store, "{}")
    put_version(store, 1, stage="archived")
    put_version(store, 2, "champion", "eu", stage="production")
    found = page(store, at(CHURN))
    assert "Name Alias Stage Run Created" in found.text
    assert "churn_2 champion eu Production hare-2 2023-11-14 22:13 UTC" in found.text
    assert "churn_1 Archived hare-1 2023-11-14" in found.text
    assert found.links[at(model("r2"))] == "hare-2"
    assert "Alias champion eu Version 2" in page(store, at(model("churn_2"))).text


def test_a_version_does_not_repeat_the_description_of_its_model(store: Store) -> None:
    put_model(store, "{}")
    urn = put_version(store, 1)
    assert page(store, at(CHURN)).text.count("Who leaves.") == 1
    put(store, urn, mlModelProperties={
        "description": "Its own.",
        "groups": [CHURN],
        "customProperties": {"mlflow.run_model": model("r1")},
    })  # fmt: skip
    assert "Its own." in page(store, at(CHURN)).text


def test_the_aliases_are_on_top_with_their_versions(store: Store) -> None:
    put_model(store, '{"champion":"2","challenger":"10","gone":"7"}')
    for number in (1, 2, 10):
        put_version(store, number)
    other = {"groups": [group("other")], "version": {"versionTag": "2"}}
    put(store, model("other_2"), mlModelProperties=other)
    found = page(store, at(CHURN))
    assert "challenger → version 10 champion → version 2 gone → version 7" in found.text
    source = page(store, at(CHURN, "?tab=overview"))
    assert source.links[at(model("churn_2"))] == "version 2"
    assert source.links[at(model("churn_10"))] == "version 10"
    assert at(model("other_2")) not in source.links


def test_more_aliases_than_are_shown_are_counted(store: Store) -> None:
    put_model(store, json.dumps({f"a{index:02}": "1" for index in range(53)}))
    found = page(store, at(CHURN, "?tab=overview")).text
    assert "a49 → version 1 and 3 more names" in found
    assert "a50 →" not in found


@pytest.mark.parametrize("aliases", ["", "[", "[1]", "7", "null", '{"a":null}', '{"a":{"b":[1]}}'])
def test_aliases_of_any_form(store: Store, aliases: str) -> None:
    put_model(store, aliases)
    put_version(store, 1)
    assert "churn_1" in page(store, at(CHURN)).text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_aliases_and_runs_are_only_text(store: Store, name: str) -> None:
    put_model(store, json.dumps({name: name}))
    custom = {"mlflow.run_model": name, "mlflow.aliases": json.dumps([f"x@{name}"])}
    put(store, model("v"), mlModelProperties={"groups": [CHURN], "customProperties": custom})
    found = page(store, at(CHURN))
    assert not any(link.startswith("javascript") for link in found.links)
    assert " ".join(visible(name).replace("\x00", "").split()) in found.text.replace(
        "\x00", ""
    ).replace("\ufffd", "")


def test_the_statements_do_not_grow_with_the_versions(store: Store) -> None:
    put_model(store, '{"champion":"1"}')
    taken = []
    for numbers in (range(1, 3), range(3, 60)):
        for number in numbers:
            put_version(store, number, "champion")
        with statements(store) as seen:
            page(store, at(CHURN))
        taken.append(len(seen))
    assert taken[0] == taken[1]


def test_a_group_of_runs_has_no_columns_of_versions(store: Store) -> None:
    put(store, group("churn"), mlModelGroupProperties={})
    store.write([Write(model("r"), "mlModelProperties", {"groups": [group("churn")]})])
    text = page(store, at(group("churn"))).text
    assert "Alias" not in text
    assert "Stage" not in text


def test_a_version_is_found_by_its_alias(store: Store) -> None:
    for name, alias in (("churn_1", "champion"), ("churn_2", "challenger")):
        version = {
            "versionSet": "urn:li:versionSet:(churn,mlModel)",
            "sortId": name,
            "version": {"versionTag": name[-1]},
            "aliases": [{"versionTag": alias}],
        }
        put(store, model(name), mlModelProperties={"name": name}, versionProperties=version)
    found = page(store, "/search?q=alias:champion").links
    assert at(model("churn_1")) in found
    assert at(model("churn_2")) not in found
