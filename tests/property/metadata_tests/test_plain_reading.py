"""Metadata tests agree with a plain reading of their grammar, whatever the rules and the entity."""

import re
from collections.abc import Collection
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata_tests.evaluate import evaluate, read_tests

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,PROD)"
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"
TEST = "urn:li:test:t"
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")

TEXTS = ["", "a", "ab", "b", "1", "1.0", "2.5", "-3", "true", "False"]
scalars = st.one_of(st.sampled_from(TEXTS), st.integers(-3, 3), st.booleans(), st.just(2.5))
entities = st.fixed_dictionaries(
    {},
    optional={
        "flat": scalars,
        "many": st.lists(scalars, max_size=3),
        "metrics": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("pq"), "value": scalars}), max_size=3
        ),
        "map": st.dictionaries(st.sampled_from(["k", "k.l"]), scalars),
        "group": st.just(GROUP),
    },
)
PATHS = ["flat", "many", "many.length", "metrics.p", "metrics.value", "map.k", "map.k.l", "absent"]
paths = st.sampled_from([*PATHS, "group.mlModelGroupProperties.flat", "group"])
VALUED = ["equals", "not", "starts_with", "contains_str", "greater_than", "less_than", "within"]
BARE = ["exists", "is_true", "is_false"]


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(VALUED + BARE))
    wanted = st.sampled_from(TEXTS[4:8] if operator.endswith("_than") else TEXTS)
    values = [] if operator in BARE else draw(st.lists(wanted, min_size=1, max_size=2))
    path = "mlModelProperties." + draw(paths)
    if draw(st.booleans()):
        return {"property": path, "operator": operator, "values": values}
    return {"query": path, "operation": operator, "params": {"values": values}}


predicates = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(
            lambda word, parts: {word: parts}, st.sampled_from(["and", "or"]), st.lists(inner)
        ),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)


def values_at(entity: dict[str, Any], group: dict[str, Any], path: str) -> list[Any]:
    """Return the values at a path, as the few forms above mean it."""
    first, _, rest = path.partition(".")
    if first not in entity:
        return []
    value = entity[first]
    match first, rest:
        case "group", "":
            return [value]
        case "group", _:
            return [group["flat"]] if "flat" in group else []
        case "many", "length":
            return [len(value)]
        case "many", _:
            return list(value)
        case "metrics", "value":
            return [one["value"] for one in value]
        case "metrics", name:
            return [one["value"] for one in value if one["name"] == name]
        case "map", key:
            return [value[key]] if key in value else []
        case _:
            return [value]


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def number(value: object) -> Decimal | None:
    is_number = not isinstance(value, bool) and NUMBER.fullmatch(str(value))
    return Decimal(str(value)) if is_number else None


def same(have: object, want: str) -> bool:
    left, right = number(have), number(want)
    if left is not None and right is not None:
        return left == right
    return text(have) == (want.lower() if isinstance(have, bool) else want)


def compare(operator: str, have: list[Any], want: list[str]) -> bool:
    pairs = [(value, other) for value in have for other in want]
    numbers = [(number(value), number(other)) for value, other in pairs]
    both = [(left, right) for left, right in numbers if left is not None and right is not None]
    match operator:
        case "equals" | "within":
            return any(same(*pair) for pair in pairs)
        case "not":
            return not any(same(*pair) for pair in pairs)
        case "starts_with":
            return any(text(value).startswith(other) for value, other in pairs)
        case "contains_str":
            return any(other in text(value) for value, other in pairs)
        case "greater_than":
            return any(left > right for left, right in both)
        case "less_than":
            return any(left < right for left, right in both)
        case "exists":
            return any(value != "" for value in have)
        case "is_true":
            return any(text(value).lower() == "true" for value in have)
        case _:
            return any(text(value).lower() == "false" for value in have)


def holds(predicate: Any, entity: dict[str, Any], group: dict[str, Any]) -> bool:
    if isinstance(predicate, list):
        return all(holds(part, entity, group) for part in predicate)
    if "and" in predicate:
        return holds(predicate["and"], entity, group)
    if "or" in predicate:
        return any(holds(part, entity, group) for part in predicate["or"])
    if "not" in predicate:
        return not holds(predicate["not"], entity, group)
    path = predicate.get("property", predicate.get("query")).partition(".")[2]
    operator = predicate.get("operator", predicate.get("operation"))
    wanted = predicate.get("values", predicate.get("params", {}).get("values"))
    return compare(operator, values_at(entity, group, path), wanted)


@given(conditions=predicates, rules=predicates, entity=entities, group=entities)
def test_an_outcome_is_what_a_plain_reading_says(
    conditions: Any, rules: Any, entity: dict[str, Any], group: dict[str, Any]
) -> None:
    stored = {
        MODEL: {"mlModelProperties": SimpleNamespace(value=entity)},
        GROUP: {"mlModelGroupProperties": SimpleNamespace(value=group)},
    }

    def fetch(urns: Collection[str], _: Collection[str] | None) -> dict[str, dict[str, Any]]:
        return {urn: stored[urn] for urn in urns}

    definition = {"on": {"types": ["MLMODEL"], "conditions": conditions}, "rules": rules}
    info = {"definition": {"type": "JSON", "json": dumps(definition).decode()}}
    [test] = read_tests({TEST: info})
    found = evaluate(fetch, [MODEL], [test], "urn:li:corpuser:ada")[MODEL]
    outcome = [side for side in ("passing", "failing") for _ in found[side]]
    expected = "passing" if holds(rules, entity, group) else "failing"
    assert outcome == ([expected] if holds(conditions, entity, group) else [])
