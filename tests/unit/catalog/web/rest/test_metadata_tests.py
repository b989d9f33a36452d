import hashlib
import json
import logging
from typing import Any

import pytest

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError
from mlcat_ingest.catalog.schema import values
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR, Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.rest import operations
from mlcat_ingest.catalog.web.rest.operations import evaluate_stored
from mlcat_ingest.errors import DefinitionError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata_tests import evaluate as evaluation
from support.catalog_store import group, model, put, statements

EXISTS = {"property": "mlModelProperties.description", "operator": "exists"}


def add_test(store: Store, name: str, rules: Any, **on: Any) -> str:
    """Store a test about models and return its URN."""
    definition = {"on": {"types": ["mlModel"], **on}, "rules": rules}
    return add_text(store, name, json.dumps(definition))


def add_text(store: Store, name: str, text: str) -> str:
    info = {"name": name, "category": "ml", "definition": {"type": "JSON", "json": text}}
    return put(store, f"urn:li:test:{name}", testInfo=info)


def outcome(store: Store, urn: str, *tests: str, push: bool = False) -> tuple[list[str], list[str]]:
    """Evaluate one entity and return the names of the tests that passed and failed."""
    results = evaluate_stored(store, [urn], tests, push=push)[urn]
    passing, failing = (
        [entry["test"].removeprefix("urn:li:test:") for entry in results[side]]
        for side in ("passing", "failing")
    )
    return passing, failing


def test_passing_and_failing_and_not_about_it(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"description": "d", "type": "t"})
    add_test(store, "described", EXISTS)
    add_test(store, "versioned", {"property": "mlModelProperties.version", "operator": "exists"})
    add_test(store, "groups", EXISTS, types=["mlModelGroup"])
    add_test(store, "nothing", EXISTS, types=[])
    selected = {"property": "mlModelProperties.type", "operator": "equals", "values": ["t"]}
    add_test(store, "selected", [], conditions=selected)
    add_test(store, "unselected", [], conditions={"not": selected})

    assert outcome(store, urn) == (["described", "selected"], ["versioned"])


def test_a_result_says_which_text_was_evaluated_when_and_for_whom(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    text = json.dumps({"on": {"types": ["mlModel"]}, "rules": []})
    test = add_text(store, "t", text)

    (result,) = evaluate_stored(store, [urn], None, push=False)[urn]["passing"]

    assert result["test"] == test
    assert result["type"] == "SUCCESS"
    assert result["testDefinitionMd5"] == hashlib.md5(text.encode()).hexdigest()  # noqa: S324
    assert result["lastComputed"]["actor"] == UNKNOWN_ACTOR
    assert result["lastComputed"]["time"] > 1_700_000_000_000


def test_failing_results_say_failure(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    add_test(store, "t", EXISTS)
    (result,) = evaluate_stored(store, [urn], None, push=False)[urn]["failing"]
    assert result["type"] == "FAILURE"


def test_combinations(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"description": "d"})
    absent = {"property": "ownership", "operator": "exists"}
    add_test(store, "and", {"and": [EXISTS, absent]})
    add_test(store, "or", {"or": [EXISTS, absent]})
    add_test(store, "not", {"not": absent})
    add_test(store, "array", [EXISTS, {"not": absent}])
    assert outcome(store, urn) == (["or", "not", "array"], ["and"])


def test_only_the_tests_asked_for(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    first, _ = add_test(store, "first", []), add_test(store, "second", [])
    assert outcome(store, urn, first, first) == (["first"], [])


@pytest.mark.parametrize("stranger", ["urn:li:test:nope", "no urn", model("m")])
def test_a_stranger_among_the_tests_is_an_error(store: Store, stranger: str) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    with pytest.raises(BadRequestError, match="is not a metadata test"):
        evaluate_stored(store, [urn], [stranger], push=False)


def test_unknown_entities_are_neither_passed_nor_failed(store: Store) -> None:
    add_test(store, "t", [])
    unknown = [model("never written"), "no urn"]
    results = evaluate_stored(store, unknown, None, push=True)
    assert results == {urn: {"passing": [], "failing": []} for urn in unknown}
    assert store.exists(unknown) == set()


def test_what_is_left_of_a_test_without_its_text_is_not_evaluated(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    put(store, "urn:li:test:empty", testKey={"id": "empty"})
    add_test(store, "u", [])
    assert outcome(store, urn) == (["u"], [])


def test_a_test_with_an_empty_definition_is_stored_and_about_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    add_text(store, "draft", " {}\n")  # as in DataHub's sample data
    assert outcome(store, urn) == outcome(store, urn, "urn:li:test:draft") == ([], [])
    assert not caplog.records


def test_a_broken_definition_is_left_out_and_logged(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    # Such a text is refused when it is written; an older catalog may hold one all the same.
    add_test(store, "broken", [])

    def reject(_text: str) -> None:
        raise DefinitionError("is not JSON")

    monkeypatch.setattr(evaluation, "read_definition", reject)
    with caplog.at_level(logging.WARNING):
        assert outcome(store, urn) == ([], [])
    assert "metadata test urn:li:test:broken: its definition is not JSON" in caplog.text


def test_a_broken_definition_is_refused_when_it_is_written(store: Store) -> None:
    bad = {"property": "p", "operator": "eq"}
    with pytest.raises(InvalidProposalError) as refused:
        add_test(store, "bad", [bad])
    assert "testInfo: definition.json: rules[0].operator: expected one of" in str(refused.value)
    info = {"name": "t", "category": "c", "definition": {"type": "JSON"}}
    with pytest.raises(InvalidProposalError, match=r"definition\.json: is not a string"):
        put(store, "urn:li:test:none", testInfo=info)
    assert store.exists(["urn:li:test:bad", "urn:li:test:none"]) == set()


def test_a_push_keeps_the_results(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"description": "d"})
    add_test(store, "t", EXISTS)
    results = evaluate_stored(store, [urn], None, push=True)[urn]
    stored = store.get_many([urn], {"testResults"})[urn]["testResults"]
    assert stored.value == results
    assert stored.modified_by == UNKNOWN_ACTOR


def test_without_a_push_nothing_is_written(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    add_test(store, "t", [])
    evaluate_stored(store, [urn], None, push=False)
    assert store.get_many([urn], {"testResults"}) == {urn: {}}


def test_equal_results_make_no_new_version(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"description": "d"})
    add_test(store, "t", EXISTS)
    for _ in range(2):
        evaluate_stored(store, [urn], None, push=True)
    assert store.get_many([urn])[urn]["testResults"].version == 1
    put(store, urn, mlModelProperties={})
    assert outcome(store, urn, push=True) == ([], ["t"])
    assert store.get_many([urn])[urn]["testResults"].version == 2


def test_a_push_of_some_tests_keeps_the_results_of_the_others(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"description": "d"})
    add_test(store, "a", EXISTS)
    other = add_test(store, "b", EXISTS)
    evaluate_stored(store, [urn], None, push=True)
    put(store, urn, mlModelProperties={})

    evaluate_stored(store, [urn], [other], push=True)

    stored = store.get_many([urn])[urn]["testResults"].value
    assert [entry["test"] for entry in stored["passing"]] == ["urn:li:test:a"]
    assert [entry["test"] for entry in stored["failing"]] == ["urn:li:test:b"]


def test_results_of_tests_that_are_gone_go_with_a_full_push(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    test = add_test(store, "t", [])
    evaluate_stored(store, [urn], None, push=True)
    store.delete(test)
    evaluate_stored(store, [urn], None, push=True)
    assert store.get_many([urn])[urn]["testResults"].value == {"passing": [], "failing": []}


def test_many_entities_and_tests_take_a_handful_of_statements(store: Store) -> None:
    terms = [f"urn:li:glossaryTerm:t{index}" for index in range(50)]
    store.write([Write(urn, "glossaryTermInfo", {"definition": "d", "termSource": "x",
        "parentNode": "urn:li:glossaryNode:n"}) for urn in terms])  # fmt: skip
    urns = [model(f"m{index}") for index in range(200)]
    writes: list[Write] = []
    for index, urn in enumerate(urns):
        writes.append(Write(urn, "mlModelProperties", {"groups": [group(f"g{index % 7}")]}))
        writes.append(Write(urn, "glossaryTerms", {"terms": [{"urn": terms[index % 50]}],
            "auditStamp": {"time": 1, "actor": UNKNOWN_ACTOR}}))  # fmt: skip
    writes += [Write(group("g3"), "mlModelGroupProperties", {"description": "the third"})]
    store.write(writes)
    parent = {
        "property": "glossaryTerms.terms.urn.glossaryTermInfo.parentNode",
        "operator": "equals",
        "values": ["urn:li:glossaryNode:n"],
    }
    third = {
        "property": "mlModelProperties.groups.mlModelGroupProperties.description",
        "operator": "contains_str",
        "values": ["third"],
    }
    for index in range(5):
        add_test(store, f"parent{index}", parent)
        add_test(store, f"third{index}", third)

    with statements(store) as seen:
        results = evaluate_stored(store, urns, None, push=False)

    assert len(seen) <= 6
    assert all(len(results[urn]["passing"]) >= 5 for urn in urns)
    assert sum(len(results[urn]["passing"]) == 10 for urn in urns) == 29


def test_only_aspects_that_a_test_reads_are_parsed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    urn = put(store, model("m"), mlModelProperties={}, status={"removed": False})
    parsed: list[str] = []

    def noting(text: str) -> Any:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(values, "loads", noting)
    assert outcome(store, urn, push=True) == ([], [])
    assert parsed == []

    add_test(store, "kept", {"property": "status.removed", "operator": "is_false"})
    parsed.clear()
    assert outcome(store, urn, push=True) == (["kept"], [])
    assert '{"removed":false}' in parsed
    assert "{}" not in parsed


def test_more_tests_than_a_page_are_all_evaluated(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_TEST_PAGE", 2)
    urn = put(store, model("m"), mlModelProperties={})
    for index in range(5):
        add_test(store, f"t{index}", [])
    assert len(outcome(store, urn)[0]) == 5
