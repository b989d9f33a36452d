"""Entities in paths of OpenAPI v3, and reading them."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.limits import Limits
from support.catalog_store import feature, group, model, put
from support.rest_client import RestClient, rest_client

MODELS = "/openapi/v3/entity/mlModel"
DEPRECATED = {"deprecated": True, "note": "", "actor": "urn:li:corpuser:a"}


def path(urn: str, *more: str) -> str:
    kind = urn.split(":")[2]
    return "/".join((f"/openapi/v3/entity/{kind}", quote(urn, safe=""), *more))


@pytest.mark.parametrize(
    "urn",
    [
        model("m"),
        model("a/b"),
        model("a/status"),
        model("ä b"),
        model("50%"),
        model("a%2Fb"),
        model("a%2Cb"),
        feature("t/t", "x"),
        "urn:li:tag:a",
        "urn:li:tag:a/b",
        "urn:li:tag:a/status",
        "urn:li:chart:(looker,a/b)",
        "urn:li:glossaryTerm:a b",
    ],
)
def test_any_name_is_found_in_an_encoded_path(client: RestClient, urn: str) -> None:
    put(client.store, urn, status={"removed": True}, deprecation=DEPRECATED)
    assert client.ok("GET", path(urn, "status")) == {"value": {"removed": True}}
    client.ok("DELETE", path(urn, "status"))
    assert client.send("GET", path(urn, "status")).status == 404
    found = client.ok("GET", f"{path(urn)}?aspects=status,deprecation")
    assert found == {"urn": urn, "deprecation": {"value": DEPRECATED}}
    client.ok("DELETE", path(urn))
    assert client.send("GET", path(urn)).status == 404
    assert not client.store.exists([urn])


@pytest.mark.parametrize(
    "urn",
    [model("a/b"), model("a%2Cb"), model("a%28b%29"), "urn:li:tag:a/b", "urn:li:chart:(l,a/b)"],
)
def test_a_urn_may_stand_in_the_path_as_it_is(client: RestClient, urn: str) -> None:
    put(client.store, urn, status={}, deprecation=DEPRECATED)
    bare = f"/openapi/v3/entity/{urn.split(':')[2]}/{urn}"
    client.ok("DELETE", f"{bare}/status")
    assert set(client.store.get_many([urn], ["status", "deprecation"])[urn]) == {"deprecation"}
    client.ok("DELETE", bare)
    assert not client.store.exists([urn])


def test_a_batch_reads_what_it_names(client: RestClient) -> None:
    one = put(client.store, model("a"), status={}, subTypes={"typeNames": ["x"]})
    two = put(client.store, model("b"), status={})
    asked = [{"urn": one, "status": {}}, {"urn": two}, {"urn": model("gone"), "status": {}}]
    found = client.ok("POST", f"{MODELS}/batchGet", asked)
    assert found[0] == {"urn": one, "status": {"value": {}}}
    assert found[1]["urn"] == two
    assert {"mlModelKey", "status"} <= set(found[1])
    assert len(found) == 2
    [twice] = client.ok("POST", f"{MODELS}/batchGet", [{"urn": one, "status": {}}, {"urn": one}])
    assert set(twice) == {"urn", "status"}


def test_a_batch_may_leave_out_the_values(client: RestClient) -> None:
    urn = put(client.store, model("a"), status={}, subTypes={"typeNames": ["x"]})
    asked = [{"urn": urn, "status": {}, "mlModelKey": {}, "ownership": {}}]
    query = "systemMetadata=true&values"
    [whole] = client.ok("POST", f"{MODELS}/batchGet?{query}=true", asked)
    [found] = client.ok("POST", f"{MODELS}/batchGet?{query}=false", asked)
    for name in ("status", "mlModelKey"):
        assert found[name] == {"systemMetadata": whole[name]["systemMetadata"]}
    assert found.keys() == whole.keys() == {"urn", "status", "mlModelKey"}
    put(client.store, urn, status={"removed": True})
    [later] = client.ok("POST", f"{MODELS}/batchGet?{query}=false", asked)
    assert later["status"]["systemMetadata"]["version"] == "2"


def test_a_batch_reads_entities_of_any_type_and_aspects_of_any_name(client: RestClient) -> None:
    urn = put(client.store, group("g"), status={})
    asked = [
        {"urn": urn, "nothing": {}},
        {"urn": model("gone")},
        {"urn": model("a").replace("PROD", "NOWHERE")},
    ]
    [found] = client.ok("POST", f"{MODELS}/batchGet", asked)
    assert found["urn"] == urn
    assert {"mlModelGroupKey", "status"} <= set(found)
    assert client.ok("POST", f"{MODELS}/batchGet", [{"urn": urn, "ownership": {}}]) == []
    assert client.ok("POST", f"{MODELS}/batchGet", {"urn": urn}) == []


def test_a_batch_reads_the_versions_it_names(client: RestClient) -> None:
    urn = put(client.store, model("a"), status={"removed": False})
    put(client.store, urn, status={"removed": True})

    def removed(version: Any) -> Any:
        asked = [{"urn": urn, "status": {"headers": {"If-Version-Match": version}}}]
        found = client.ok("POST", f"{MODELS}/batchGet?systemMetadata=true", asked)
        return [entity["status"]["value"]["removed"] for entity in found]

    assert removed("0") == [True]
    assert removed("1") == [False]
    assert removed("2") == [True]
    assert removed("3") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (3, ""),
        (None, ""),
        ({"headers": {}}, ""),
        ({"headers": []}, "[0].status.headers must be a JSON object"),
        ({"headers": 3}, "[0].status.headers must be a JSON object"),
        ({"headers": {"If-Version-Match": "x"}}, "[0].status.headers.if-version-match: expected"),
        ({"headers": {"If-Version-Match": "-1"}}, "[0].status.headers.if-version-match: expected"),
    ],
)
def test_a_batch_names_what_it_does_not_understand(
    client: RestClient, content: Any, message: str
) -> None:
    asked = [{"urn": group("g"), "status": content}]
    if not message:
        client.ok("POST", "/openapi/v3/entity/mlModelGroup/batchGet", asked)
        return
    assert message in client.refused("POST", "/openapi/v3/entity/mlModelGroup/batchGet", asked)


def test_a_read_asks_for_so_many(tmp_path: Path) -> None:
    tags = [f"urn:li:tag:{n}" for n in range(4)]
    with rest_client(tmp_path / "c.db", Limits(batch_urns=3)) as client:
        refused = client.refused(
            "POST", "/openapi/v3/entity/tag/batchGet", [{"urn": tag} for tag in tags]
        )
        assert "the body has 4 items; the limit is 3" in refused


def test_names_of_types_and_aspects_may_be_in_any_case(client: RestClient) -> None:
    urn = model("m")
    put(client.store, urn, mlModelProperties={"name": "a"}, status={"removed": False})
    lower = path(urn).replace("/mlModel/", "/mlmodel/")
    only = client.ok("GET", f"{lower}?aspects=mlmodelproperties,STATUS")
    assert set(only) == {"urn", "mlModelProperties", "status"}
    wanted = [{"urn": urn, "mlmodelproperties": {}}]
    [one] = client.ok("POST", "/openapi/v3/entity/mlmodel/batchGet", wanted)
    assert one == {"urn": urn, "mlModelProperties": {"value": {"name": "a"}}}
    written = [{"urn": urn, "STATUS": {"value": {"removed": True}}}]
    client.ok("POST", "/openapi/v3/entity/mlmodel", written, 202)
    held = client.store.get_many([urn], ["status", "mlModelProperties"])[urn]
    assert held["status"].value == {"removed": True}
    client.ok("DELETE", f"{lower}?aspects=mlmodelproperties")
    client.ok("DELETE", f"{lower}/STATUS")
    assert not client.store.get_many([urn], ["status", "mlModelProperties"])[urn]


RELATED = "/openapi/relationships/v1/"


def test_a_page_of_relationships(client: RestClient) -> None:
    members = [
        put(client.store, model(name), mlModelProperties={"groups": [group("g")]}) for name in "abc"
    ]
    asked = f"{RELATED}?urn={quote(group('g'))}&direction=INCOMING&relationshipTypes=MemberOf"
    page = client.ok("GET", f"{asked}&start=1&count=1")
    assert page == {
        "start": 1,
        "count": 1,
        "total": 3,
        "entities": [{"urn": members[1], "relationshipType": "MemberOf"}],
    }
    assert client.ok("GET", f"{asked}&start=3")["count"] == 0
    unknown = asked.replace(quote(group("g")), quote(group("none")))
    assert client.ok("GET", unknown) == {"start": 0, "count": 0, "total": 0, "entities": []}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("direction=INCOMING&relationshipTypes=a", "urn"),
        ("urn=urn:li:tag:a&relationshipTypes=a", "direction"),
        ("urn=urn:li:tag:a&direction=UP&relationshipTypes=a", "direction"),
        ("urn=urn:li:tag:a&direction=INCOMING", "relationshipTypes"),
        ("urn=a&direction=INCOMING&relationshipTypes=a", "'a' is not a URN"),
        ("urn=urn:li:tag:a&direction=INCOMING&relationshipTypes=a&start=-1", "start"),
        ("urn=urn:li:tag:a&direction=INCOMING&relationshipTypes=a&count=x", "count"),
    ],
)
def test_relationships_without_what_they_need_are_refused(
    client: RestClient, query: str, named: str
) -> None:
    assert named in client.refused("GET", f"{RELATED}?{query}")
