"""The four roots of the service's interface, field by field and rule by rule."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from support.catalog_graphql import ask
from support.catalog_store import feature, group, model, put, table

MODEL = "name description properties { description version type mlFeatures groups { urn name } }"
TABLE = "name description platform { name } properties { description mlFeatures { name } }"


def read(store: Store, root: str, urn: str, fields: str) -> Any:
    return ask(store, f"query ($urn: String!) {{ {root}(urn: $urn) {{ {fields} }} }}", urn=urn)[
        root
    ]


@pytest.mark.parametrize("lists", [{}, {"mlFeatures": [], "groups": []}])
def test_a_model_with_nothing(store: Store, lists: dict[str, Any]) -> None:
    urn = put(store, model("bare"), mlModelProperties=lists)
    assert read(store, "mlModel", urn, MODEL) == {
        "name": "bare",
        "description": None,
        "properties": {
            "description": None,
            "version": None,
            "type": None,
            "mlFeatures": None,
            "groups": [],
        },
    }


def test_an_unset_feature_table(store: Store) -> None:
    urn = put(store, table("t"), mlFeatureTableProperties={})
    assert read(store, "mlFeatureTable", urn, TABLE) == {
        "name": "t",
        "description": None,
        "platform": {"name": "feast"},
        "properties": {"description": None, "mlFeatures": None},
    }


@pytest.mark.parametrize(
    ("root", "urn", "name"),
    [
        ("mlModel", model("no"), "no"),
        ("mlModelGroup", group("no"), "no"),
        ("mlFeature", feature("t", "no"), "no"),
        ("mlFeatureTable", table("no"), "no"),
    ],
)
def test_an_unknown_urn_does_not_exist_and_has_what_the_urn_says(
    store: Store, root: str, urn: str, name: str
) -> None:
    fields = "urn name exists description properties { description } status { removed }"
    assert read(store, root, urn, fields) == {
        "urn": urn,
        "name": name,
        "exists": False,
        "description": None,
        "properties": None,
        "status": None,
    }
    assert read(store, "entity", urn, "urn exists aspects { aspectName }") == {
        "urn": urn,
        "exists": False,
        "aspects": [],
    }


def test_names_are_the_part_of_the_urn_verbatim(store: Store) -> None:
    urn = put(store, feature("a%2Cb", "1%2C%28x%29 ü"), mlFeatureProperties={})
    assert read(store, "mlFeature", urn, "name featureNamespace") == {
        "name": "1%2C%28x%29 ü",
        "featureNamespace": "a%2Cb",
    }


@pytest.mark.parametrize(
    ("root", "urn", "says"),
    [
        ("mlFeature", "junk", "is not a URN"),
        ("mlModel", "urn:li:mlModel:(a,b)", "has 2 parts, not 3"),
        ("entity", "", "is not a URN"),
        ("entity", "urn:li:", "is not a URN"),
    ],
)
def test_a_urn_that_cannot_be_meant_is_an_error_with_a_code(
    store: Store, root: str, urn: str, says: str
) -> None:
    query = f"query ($urn: String!) {{ {root}(urn: $urn) {{ urn }} }}"
    reply = answer(store, query, {"urn": urn})
    assert reply["data"] == {root: None}
    (error,) = reply["errors"]
    assert says in error["message"]
    assert error["extensions"] == {
        "code": 400,
        "type": "BAD_REQUEST",
        "classification": "DataFetchingException",
    }
    assert error["path"] == [root]
    assert reply["extensions"] == {}


def test_entities_in_the_order_asked_for(store: Store) -> None:
    put(store, model("m"), mlModelProperties={})
    put(store, feature("t", "f"), mlFeatureProperties={})
    put(store, "urn:li:dataHubExecutionRequest:x", dataHubExecutionRequestInput={"task": "t"})
    urns = [
        feature("t", "f"),
        "urn:li:dataHubExecutionRequest:x",
        model("no"),
        model("m"),
        model("m"),
    ]
    query = (
        "query ($urns: [String!]!) { entities(urns: $urns) "
        "{ type ... on MLFeature { featureNamespace } ... on MLModel { name } } }"
    )
    assert ask(store, query, urns=urns)["entities"] == [
        {"type": "MLFEATURE", "featureNamespace": "t"},
        {"type": "EXECUTION_REQUEST"},
        {"type": "MLMODEL", "name": "no"},
        {"type": "MLMODEL", "name": "m"},
        {"type": "MLMODEL", "name": "m"},
    ]


@pytest.mark.parametrize(
    "urn",
    [
        "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,PROD,x)",
        "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,NOENV)",
        "urn:li:mlFeature:(a,b,c)",
    ],
)
def test_the_parts_of_a_urn_count_where_the_entity_is_read(store: Store, urn: str) -> None:
    assert set(read(store, "entity", urn, "urn type __typename")) == {"urn", "type", "__typename"}
    query = f'{{ entity(urn: "{urn}") {{ exists }} }}'
    reply = answer(store, query, {})
    assert ("errors" in reply) is ("NOENV" not in urn)
