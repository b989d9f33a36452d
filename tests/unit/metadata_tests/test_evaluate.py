from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata_tests.evaluate import evaluate, merge_results, read_tests

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,PROD)"
GONE = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,gone,PROD)"
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"
ENTITIES: dict[str, dict[str, Any]] = {
    MODEL: {"mlModelProperties": {"groups": [GROUP]}},
    GROUP: {"mlModelGroupProperties": {"description": "d"}},
}


def info(path: str) -> dict[str, Any]:
    rules = {"property": path, "operator": "exists"}
    text = dumps({"on": {"types": ["mlModel"]}, "rules": rules}).decode()
    return {"definition": {"type": "JSON", "json": text}}


def test_entities_come_from_any_place() -> None:
    calls: list[tuple[set[str], set[str]]] = []

    def fetch(urns: Collection[str], names: Collection[str] | None) -> dict[str, dict[str, Any]]:
        assert names is not None
        calls.append((set(urns), set(names)))
        return {
            urn: {name: SimpleNamespace(value=value) for name, value in ENTITIES[urn].items()}
            for urn in urns
            if urn in ENTITIES
        }

    infos = {
        "urn:li:test:described": info(
            "mlModelProperties.groups.mlModelGroupProperties.description"
        ),
        "urn:li:test:owned": info("ownership"),
        "urn:li:test:draft": {"definition": {"type": "JSON", "json": "{}"}},
        "urn:li:test:broken": {},
    }
    results = evaluate(fetch, [MODEL, GONE, MODEL], read_tests(infos), "urn:li:corpuser:ada")

    assert [entry["test"] for entry in results[MODEL]["passing"]] == ["urn:li:test:described"]
    assert [entry["test"] for entry in results[MODEL]["failing"]] == ["urn:li:test:owned"]
    assert results[GONE] == {"passing": [], "failing": []}
    assert calls == [
        ({MODEL, GONE}, {"mlModelProperties", "ownership"}),
        ({GROUP}, {"mlModelGroupProperties"}),
    ]


def test_what_cannot_be_read_makes_no_outcome_of_the_tests_that_look_at_it() -> None:
    def fetch(urns: Collection[str], _: Collection[str] | None) -> dict[str, dict[str, Any]]:
        if GROUP in urns:
            return {GROUP: {"mlModelGroupProperties": None}}
        properties = SimpleNamespace(value={"groups": [GROUP], "name": "m"})
        return {MODEL: {"mlModelProperties": properties, "ownership": None}}

    definition = {
        "on": {
            "types": ["mlModel"],
            "conditions": {"property": "mlModelProperties.hidden", "operator": "exists"},
        },
        "rules": {"property": "ownership", "operator": "exists"},
    }
    infos = {
        "urn:li:test:named": info("mlModelProperties.name"),
        "urn:li:test:owned": info("ownership"),
        "urn:li:test:group": info("mlModelProperties.groups.mlModelGroupProperties.name"),
        "urn:li:test:about-others": {
            "definition": {"type": "JSON", "json": dumps(definition).decode()}
        },
    }
    unread: list[tuple[str, str]] = []
    results = evaluate(
        fetch, [MODEL], read_tests(infos), "urn:li:corpuser:ada", lambda *of: unread.append(of)
    )[MODEL]
    assert [entry["test"] for entry in results["passing"]] == ["urn:li:test:named"]
    assert results["failing"] == []
    assert unread == [(MODEL, "urn:li:test:owned"), (MODEL, "urn:li:test:group")]


def test_equal_outcomes_make_no_new_aspect() -> None:
    old: dict[str, Any] = {"test": "urn:li:test:a", "type": "SUCCESS", "testDefinitionMd5": "1"}
    fresh = evaluate(lambda _urns, _names: {}, [MODEL], [], "urn:li:corpuser:ada")[MODEL]
    assert merge_results({}, fresh, None) is None
    assert merge_results({"passing": [old]}, fresh, frozenset({"urn:li:test:b"})) is None
    assert merge_results({"passing": [old]}, fresh, frozenset({"urn:li:test:a"})) == fresh
    assert merge_results({"passing": [old]}, fresh, None) == fresh
