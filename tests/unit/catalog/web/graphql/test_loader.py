"""How many statements a query takes: a few a level, however many entities there are on it."""

from dataclasses import replace
from typing import Any

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from support.catalog_store import feature, group, model, put, statements, table


def ask(store: Store, query: str) -> tuple[Any, int]:
    """Run a query and return its data and the number of statements it took."""
    with statements(store) as seen:
        reply = answer(store, query, {})
    assert "errors" not in reply, reply["errors"]
    return reply["data"], len(seen)


def test_one_entity_is_one_statement(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"groups": [group("g")]}, status={"removed": False})
    query = (
        f'{{ mlModel(urn: "{model("m")}") {{ name exists description status {{ removed }} '
        "platform { name } properties { type groups { urn name } } ownership { owners { type } } "
        "} }"
    )
    assert ask(store, query)[1] == 1


def test_a_group_with_a_thousand_models(store: Store) -> None:
    names = [model(f"m{index}") for index in range(1_000)]
    store.write(
        [
            *(
                Write(
                    urn,
                    "mlModelProperties",
                    {
                        "groups": [group("g"), group(f"own{index}")],
                        "mlFeatures": [feature("t", "f")],
                    },
                )
                for index, urn in enumerate(names)
            ),
            *(
                Write(urn, "globalTags", {"tags": [{"tag": f"urn:li:tag:t{index % 9}"}]})
                for index, urn in enumerate(names)
            ),
            Write(group("g"), "mlModelGroupProperties", {"description": "all"}),
            *(
                Write(group(f"own{index}"), "mlModelGroupProperties", {"description": str(index)})
                for index in range(1_000)
            ),
        ]
    )
    query = f"""{{ mlModelGroup(urn: "{group("g")}") {{
        relationships(input: {{types: ["MemberOf"], direction: INCOMING, count: 1000}}) {{
            relationships {{ entity {{ ... on MLModel {{
                exists
                properties {{ groups {{ description }} }}
                tags {{ tags {{ tag {{ name exists properties {{ name }} }} }} }}
                relationships(input: {{types: ["Consumes"], direction: OUTGOING}}) {{ total }}
            }} }} }} }} }} }}"""

    data, taken = ask(store, query)

    found = data["mlModelGroup"]["relationships"]["relationships"]
    assert len(found) == 1_000
    assert found[7]["entity"] == {
        "exists": True,
        "properties": {"groups": [{"description": "all"}, {"description": "7"}]},
        "tags": {"tags": [{"tag": {"name": "t7", "exists": False, "properties": None}}]},
        "relationships": {"total": 1},
    }
    assert taken <= 11


def test_a_table_with_a_thousand_features(store: Store) -> None:
    features = [feature("t", f"f{index}") for index in range(1_000)]
    store.write(
        [
            Write(table("t"), "mlFeatureTableProperties", {"mlFeatures": features}),
            *(Write(urn, "mlFeatureProperties", {"dataType": "COUNT"}) for urn in features[:500]),
        ]
    )
    named = (
        f'{{ mlFeatureTable(urn: "{table("t")}") {{ properties {{ mlFeatures {{ name }} }} }} }}'
    )
    data, taken = ask(store, named)
    assert len(data["mlFeatureTable"]["properties"]["mlFeatures"]) == 1_000
    assert taken == 1

    typed = named.replace("name", "dataType exists ownership { owners { type } }")
    data, taken = ask(store, typed)
    assert data["mlFeatureTable"]["properties"]["mlFeatures"][-1] == {
        "dataType": None,
        "exists": False,
        "ownership": None,
    }
    assert taken == 3


def test_an_entity_that_is_reached_twice_is_read_once(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"groups": [group("g")]})
    put(store, group("g"), mlModelGroupProperties={"description": "g"})
    one = f'mlModel(urn: "{model("m")}") {{ properties {{ groups {{ description }} }} }}'
    _, taken = ask(store, f"{{ a: {one} b: {one} }}")
    assert taken == 2


def test_long_lists_are_read_in_stretches_as_far_as_they_are_shown(store: Store) -> None:
    urns = [feature("t", f"f{index}") for index in range(2_500)]
    store.write(
        [
            Write(table("t"), "mlFeatureTableProperties", {"mlFeatures": urns}),
            *(Write(urn, "mlFeatureProperties", {"description": "d"}) for urn in urns),
        ]
    )
    query = f"""{{ mlFeatureTable(urn: "{table("t")}") {{ properties {{ mlFeatures {{
        description exists ownership {{ owners {{ type }} }}
        relationships(input: {{types: ["DerivedFrom"], direction: OUTGOING}}) {{ total }}
        }} }} }} }}"""
    data, taken = ask(store, query)
    features = data["mlFeatureTable"]["properties"]["mlFeatures"]
    assert len(features) == 2_500
    assert features[2_400]["description"] == "d"
    # Three stretches, each of features and of edges; the first feature is read twice.
    assert taken <= 8

    with statements(store) as seen:
        reply = answer(store, query, {}, limits=replace(DEFAULT_LIMITS, query_values=300))
    assert "too many values; the limit is 300" in reply["errors"][0]["message"]
    assert len(seen) <= 4
