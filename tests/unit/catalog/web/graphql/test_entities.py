"""The four roots of the service's interface, field by field and rule by rule."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from support.catalog_graphql import ask
from support.catalog_store import feature, group, model, put, table

MODEL = "name description properties { description version type mlFeatures groups { urn name } }"
TABLE = "name description platform { name } properties { description mlFeatures { name } }"
GROUP = "name description platform { name } properties { description }"
FEATURE = (
    "name featureNamespace description properties { description dataType version { versionTag } }"
)


def read(store: Store, root: str, urn: str, fields: str) -> Any:
    return ask(store, f"query ($urn: String!) {{ {root}(urn: $urn) {{ {fields} }} }}", urn=urn)[
        root
    ]


def test_a_model_with_everything(store: Store) -> None:
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn"})
    urn = put(
        store,
        model("run1"),
        mlModelProperties={
            "description": "first run",
            "version": {"versionTag": "3"},
            "type": "Lasso",
            "mlFeatures": [feature("t", "b"), feature("t", "a")],
            "groups": [group("churn"), group("never written")],
        },
    )
    assert read(store, "mlModel", urn, MODEL) == {
        "name": "run1",
        "description": "first run",
        "properties": {
            "description": "first run",
            "version": "3",
            "type": "Lasso",
            "mlFeatures": [feature("t", "b"), feature("t", "a")],
            "groups": [
                {"urn": group("churn"), "name": "churn"},
                {"urn": group("never written"), "name": "never written"},
            ],
        },
    }


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


def test_a_feature_table_keeps_the_order_and_names_what_was_never_written(store: Store) -> None:
    put(store, feature("customers", "b"), mlFeatureProperties={"description": "B"})
    urn = put(
        store,
        table("customers"),
        mlFeatureTableProperties={
            "description": "all customers",
            "mlFeatures": [feature("customers", name) for name in ("c", "b", "a")],
        },
    )
    assert read(store, "mlFeatureTable", urn, TABLE) == {
        "name": "customers",
        "description": "all customers",
        "platform": {"name": "feast"},
        "properties": {
            "description": "all customers",
            "mlFeatures": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        },
    }
    stub = "properties { mlFeatures { urn exists description properties { dataType } } }"
    assert read(store, "mlFeatureTable", urn, stub)["properties"]["mlFeatures"][:2] == [
        {
            "urn": feature("customers", "c"),
            "exists": False,
            "description": None,
            "properties": None,
        },
        {
            "urn": feature("customers", "b"),
            "exists": True,
            "description": "B",
            "properties": {"dataType": None},
        },
    ]


def test_an_unset_feature_table(store: Store) -> None:
    urn = put(store, table("t"), mlFeatureTableProperties={})
    assert read(store, "mlFeatureTable", urn, TABLE) == {
        "name": "t",
        "description": None,
        "platform": {"name": "feast"},
        "properties": {"description": None, "mlFeatures": None},
    }


def test_a_model_group(store: Store) -> None:
    urn = put(store, group("g"), mlModelGroupProperties={"description": "all runs"})
    assert read(store, "mlModelGroup", urn, GROUP) == {
        "name": "g",
        "description": "all runs",
        "platform": {"name": "mlflow"},
        "properties": {"description": "all runs"},
    }


def test_a_feature(store: Store) -> None:
    urn = put(
        store,
        feature("customers", "flags"),
        mlFeatureProperties={"dataType": "SEQUENCE", "version": {"versionTag": "v2"}},
    )
    assert read(store, "mlFeature", urn, FEATURE) == {
        "name": "flags",
        "featureNamespace": "customers",
        "description": None,
        "properties": {
            "description": None,
            "dataType": "SEQUENCE",
            "version": {"versionTag": "v2"},
        },
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


def test_the_platform_of_an_unknown_urn_is_in_it(store: Store) -> None:
    fields = "platform { name } origin ownership { owners { type } } tags { tags { tag { urn } } }"
    assert read(store, "mlModel", model("no"), fields) == {
        "platform": {"name": "mlflow"},
        "origin": "PROD",
        "ownership": None,
        "tags": None,
    }


def test_an_entity_without_its_properties_has_none(store: Store) -> None:
    urn = put(store, model("m"), status={"removed": True})
    assert read(store, "mlModel", urn, "name properties { type } status { removed }") == {
        "name": "m",
        "properties": None,
        "status": {"removed": True},
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
