"""The tab of the history: versions with their writers and changes, bounded."""

import json
from typing import Any

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.history import CHANGES, COMPARED_CHARS, history_page
from mlcat_ingest.metadata.aliases import Sighting, encode
from support.catalog_store import group, model, put, statements
from support.names import HOSTILE
from support.pages import at, get, page

ADA = "urn:li:corpuser:ada"
RUN = "demo-2026_11_28-07_30_45-4ab9cf"
URN = model("m")
TAB = "?tab=history"


def write(store: Store, value: dict[str, Any], actor: str | None = None, **metadata: Any) -> None:
    item = Write(URN, "mlModelProperties", value, system_metadata=metadata or None)
    store.write([item], *([actor] if actor else []))


def text(store: Store, query: str = TAB) -> str:
    return page(store, at(URN, query)).text


def test_each_version_shows_its_changes_the_newest_first(store: Store) -> None:
    write(store, {"description": "old", "customProperties": {"a": "1", "b": "2"}})
    write(
        store,
        {
            "description": "new",
            "customProperties": {"a": "1", "c": "3"},
            "trainingMetrics": [{"name": "auc", "value": "0.9"}],
        },
    )
    shown = text(store)
    assert "mlModelProperties version 2 changed description old → new" in shown
    assert "removed customProperties b 2" in shown
    assert "added customProperties c 3" in shown
    assert "added trainingMetrics auc 0.9" in shown
    first = shown.index("mlModelProperties version 1, new")
    assert shown.index("mlModelProperties version 2") < first
    assert "added description old" in shown[first:]
    assert "customProperties a" not in shown[:first]


def test_the_writer_is_a_recipe_and_its_run(store: Store) -> None:
    write(store, {"description": "x"}, runId=RUN, pipelineName="demo", lastObserved=1)
    found = page(store, at(URN, TAB))
    assert f"by recipe demo , run {RUN}" in found.text
    assert at(f"urn:li:dataHubExecutionRequest:{RUN}") not in found.links
    execution = f"urn:li:dataHubExecutionRequest:{RUN}"
    put(store, execution, dataHubExecutionRequestResult={"status": "SUCCESS"})
    assert page(store, at(URN, TAB)).links[at(execution)] == f"run {RUN}"


def test_the_writer_is_a_person(store: Store) -> None:
    put(store, ADA, corpUserInfo={"active": True, "displayName": "Ada L."})
    write(store, {"description": "x"}, ADA)
    found = page(store, at(URN, TAB))
    assert "by Ada L." in found.text
    assert found.links[at(ADA)] == "Ada L."


@pytest.mark.parametrize("metadata", [{}, {"runId": "no-run-id-provided"}, {"pipelineName": ""}])
def test_a_writer_without_a_name_is_a_person_or_tool(
    store: Store, metadata: dict[str, Any]
) -> None:
    write(store, {"description": "x"}, **metadata)
    assert "by a person or tool" in text(store)


def test_results_of_tests_are_written_by_the_catalog(store: Store) -> None:
    put(store, URN, testResults={"passing": [], "failing": []})
    assert "by the catalog" in text(store)


def test_a_soft_delete_is_a_change(store: Store) -> None:
    put(store, URN, status={"removed": False})
    put(store, URN, status={"removed": True})
    assert "status version 2 changed removed false → true" in text(store)


def test_aspects_of_one_write_are_one_revision(store: Store) -> None:
    put(store, URN, mlModelProperties={"description": "x"}, globalTags={"tags": []})
    (revision,) = history_page(store, URN, 0).revisions
    assert {version.aspect for version in revision.versions} == {"globalTags", "mlModelProperties"}


def test_only_internal_properties_are_not_spelled_out(store: Store) -> None:
    write(store, {"customProperties": {"mlcat.source": "a"}})
    write(store, {"customProperties": {"mlcat.source": "b"}})
    assert "version 2 Only internal properties of mlcat-ingest changed." in text(store)


def test_a_deleted_aspect_keeps_its_versions(store: Store) -> None:
    put(store, URN, mlModelProperties={}, globalTags={"tags": [{"tag": "urn:li:tag:gold"}]})
    put(store, URN, globalTags={"tags": []})
    store.write([Write(URN, "globalTags", change="DELETE")])
    assert text(store).count("The aspect was deleted afterwards.") == 1
    assert "globalTags version 2 removed tags" in text(store)


def test_entries_in_another_order_are_no_change_of_value(store: Store) -> None:
    for groups in (["a", "b"], ["b", "a"]):
        write(store, {"groups": [group(name) for name in groups]})
    assert "changed groups in another order" in text(store)


def test_thousands_of_versions_have_pages(store: Store) -> None:
    for number in range(120):
        store.write([Write(URN, "mlModelProperties", {"description": str(number)})])
    first = page(store, at(URN, TAB))
    assert "1 to 50 of 120" in first.text
    assert "changed description 118 → 119" in first.text
    # The one before the first of a page is compared with it, though it is on another page.
    assert "changed description 69 → 70" in first.text
    assert at(URN, f"{TAB}&start=50") in first.links
    assert "version 1, new" in text(store, f"{TAB}&start=100")
    assert "No versions." in text(store, f"{TAB}&start=500")


def test_the_statements_do_not_grow_with_the_versions(store: Store) -> None:
    taken = []
    for rounds in (2, 40):
        for number in range(rounds):
            write(store, {"description": f"{rounds} {number}"}, runId=f"r{number}")
        with statements(store) as seen:
            history_page(store, URN, 0)
        taken.append(len(seen))
    assert taken[0] == taken[1]


def test_of_a_record_only_the_fields_that_differ_are_shown(store: Store) -> None:
    for value in ("0.8", "0.9"):
        metric = {"name": "auc", "value": value, "description": "step 3"}
        write(store, {"trainingMetrics": [metric]})
    assert "changed trainingMetrics auc 0.8 → 0.9 20" in text(store)


def test_many_changes_of_one_version_are_counted(store: Store) -> None:
    write(store, {})
    write(store, {"customProperties": {f"k{index:03}": "v" for index in range(CHANGES + 3)}})
    shown = text(store)
    assert f"k{CHANGES - 1:03}" in shown
    assert f"k{CHANGES:03}" not in shown
    assert "and 3 more changes" in shown


def test_a_long_value_is_folded_and_a_very_long_one_cut(store: Store) -> None:
    write(store, {"description": "a" * 500})
    write(store, {"description": "b" * 5_000})
    source = get(store, at(URN, TAB)).text
    assert f"<summary><bdi>{'b' * 120}</bdi>…</summary><bdi>{'b' * 1_999}…</bdi>" in source
    assert f"<bdi>{'a' * 500}</bdi>" in source


def test_large_values_are_compared_a_part_at_a_time(store: Store) -> None:
    half = COMPARED_CHARS // 2 - 1_000
    for number in range(4):
        write(store, {"description": f"{number}" * half})
    found = page(store, at(URN, TAB))
    assert "mlModelProperties version 3 Too large to be compared on this page." in found.text
    assert found.text.count("Too large to be compared on this page.") == 3
    assert found.links[at(URN, f"{TAB}&start=1")] == "Compare it"
    shifted = text(store, f"{TAB}&start=1")
    assert "version 3 changed description" in shifted


def test_a_value_that_is_too_large_for_any_page_is_not_compared(store: Store) -> None:
    write(store, {"description": "x" * (COMPARED_CHARS + 1)})
    found = page(store, at(URN, TAB))
    assert "version 1 Too large to be compared." in found.text
    assert "Compare it" not in found.text


@pytest.mark.parametrize("value", [None, 7, "text", [1, [2]], {"a": {"b": [None]}}, [[], {}]])
def test_unknown_aspects_of_any_form(store: Store, value: Any) -> None:
    urn = "urn:li:dataHubPolicy:p"
    for given in ({"x": value}, {"x": [value]}, {"y": value}):
        store.write([Write(urn, "dataHubPolicyInfo", json.loads(json.dumps(given)))])
    assert "dataHubPolicyInfo version 3" in page(store, at(urn, TAB)).text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_values_in_the_history_are_only_text(store: Store, name: str) -> None:
    write(store, {"description": "x"}, runId=name, pipelineName=name)
    write(store, {"description": name, "customProperties": {name: name}})
    found = page(store, at(URN, TAB))
    shown = " ".join(name.replace("\x00", "").split())
    assert shown[:100] in found.text.replace("\x00", "").replace("\ufffd", "")


def test_an_entity_that_is_only_referred_to_has_no_history(store: Store) -> None:
    put(store, URN, mlModelProperties={"groups": [group("g")]})
    assert at(group("g"), TAB) not in page(store, at(group("g"))).links


def test_moves_of_aliases_and_stages_are_named(store: Store) -> None:
    moved = Sighting("champion", "3", 1_000, 1_001, "event")
    log = {"mlcat.alias_log": encode([moved])}
    for custom in ({}, log, {**log, "k": "v"}):
        put(store, group("registered:m"), mlModelGroupProperties={"customProperties": custom})
    shown = page(store, at(group("registered:m"), TAB)).text
    assert shown.count("alias champion: version 3, at 1970-01-01 00:00:01 UTC (reg") == 1
    assert "Only internal properties" not in shown
    for tags, aliases in (([], []), (["mlflow_production", "mlflow_other"], ["next"]), ([], [])):
        versions = {
            "versionSet": "urn:li:versionSet:(s,mlModel)",
            "version": {"versionTag": "1"},
            "sortId": "1",
            "aliases": [{"versionTag": alias} for alias in aliases],
        }
        tagged = {"tags": [{"tag": f"urn:li:tag:{tag}"} for tag in tags]}
        put(store, URN, versionProperties=versions, globalTags=tagged)
    shown = text(store)
    for line in ("alias next set", "alias next taken away"):
        assert shown.count(line) == 1
    for line in ("stage production set", "stage production taken away"):
        assert shown.count(line) == 1
    assert "stage other" not in shown
    # A move is shown once, not as a change of its field, too.
    assert "tags urn:li:tag:mlflow_other" in shown
    assert "tags urn:li:tag:mlflow_prod" not in shown


def test_values_are_in_words(store: Store) -> None:
    detail = {"urn": "urn:li:incident:i", "type": "OTHER", "createdAt": 1_700_000_000_000}
    put(store, URN, incidentsSummary={"activeIncidentDetails": [detail]})
    write(store, {"customProperties": {"mlflow.aliases": '["m@a","m@b"]', "n": "[]", "t": "{x"}})
    shown = text(store)
    created = "createdAt: 2023-11-14T22:13:20.000+00:00"
    assert f"activeIncidentDetails urn: urn:li:incident:i, type: OTHER, {created}" in shown
    assert "mlflow.aliases m@a, m@b" in shown
    assert ("n []" in shown, "t {x" in shown) == (True, True)
    assert '"' not in shown
    write(store, {"customProperties": {"n": '{"a": 1}', "mlflow.x": "[" * 900 + "]" * 900}})
    write(store, {"customProperties": {"n": '{"a": "1"}', "mlflow.x": "[" * 900 + "]" * 900}})
    # Values that are equal in words are JSON; the levels of a nested value have an end.
    shown = text(store)
    assert 'customProperties n {"a": 1} → {"a": "1"}' in shown
    assert "mlflow.x …" in shown
