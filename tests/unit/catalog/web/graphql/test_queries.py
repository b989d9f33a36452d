"""Documents, limits and the shape of replies."""

import json
from dataclasses import replace
from typing import Any

import pytest
from graphql import GraphQLError, get_introspection_query

from mlcat_ingest.catalog.errors import BusyError
from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.graphql import execution, schema
from mlcat_ingest.catalog.web.graphql.execution import CACHED_CHARS, answer, prepare
from support.asgi import Answer, call
from support.catalog_store import feature, group, model, put, table

TYPENAME = "{ __typename }"


def ask(store: Store, query: str, limits: Limits = DEFAULT_LIMITS, /, **variables: Any) -> Any:
    return answer(store, query, variables, limits=limits)


def post(store: Store, body: bytes, path: str = "/api/graphql") -> Answer:
    return call(create_app(store), "POST", path, body)


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/graphql", "/api/v2/graphql", "/gms/api/graphql"])
def test_a_success_has_data_and_empty_extensions_and_nothing_else(store: Store, path: str) -> None:
    answer = post(store, b'{"query": "{ __typename }"}', path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"data": {"__typename": "Query"}, "extensions": {}}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "query: missing"),
        (b'{"query": "{a}", "variables": []}', "variables must be a JSON object"),
        (b'{"query": "{a}", "operationName": 1}', "operationName: expected a string"),
        (b'{"query": "query A { __typename }", "operationName": "B"}', "no such operation"),
        (b'{"query": "query A { __typename } query B { __typename }"}', "none is named"),
        (b"\xff", "JSON"),
    ],
)
def test_a_body_that_is_no_request_is_a_400(store: Store, body: bytes, says: str) -> None:
    answer = post(store, body)
    assert answer.status == 400
    assert answer.json()["status"] == 400
    assert says in answer.json()["message"]


def test_empty_members_of_the_body_are_as_if_not_there(store: Store) -> None:
    body = b'{"query": "{ __typename }", "variables": null, "operationName": ""}'
    assert post(store, body).json()["data"] == {"__typename": "Query"}


@pytest.mark.parametrize("query", ["", 1, None, {}, [], True])
def test_a_query_that_is_no_text_is_read_as_one(store: Store, query: object) -> None:
    answer = post(store, json.dumps({"query": query}).encode())
    assert answer.status == 200
    (error,) = answer.json()["errors"]
    token = json.dumps(query) if isinstance(query, int | None) else "<EOF>"
    assert error == {
        "message": f"Invalid syntax with offending token '{token}' at line 1 column 1",
        "locations": [{"line": 1, "column": 1}],
        "extensions": {"classification": "InvalidSyntax"},
    }


# --- the language --------------------------------------------------------------------------------


def test_fragments_aliases_variables_and_operation_names(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"description": "d"})
    put(store, group("g"), mlModelGroupProperties={"description": "e"})
    query = """
        query Other { __typename }
        query Both($m: String!, $g: String!, $deep: Boolean = false) {
          first: entity(urn: $m) { ...named }
          second: entity(urn: $g) { ...named }
        }
        fragment named on Entity {
          kind: __typename urn
          ... on MLModel { description }
          ... on MLModelGroup { description properties @include(if: $deep) { name } }
        }"""
    urns = {"m": model("m"), "g": group("g")}
    reply = answer(store, query, urns, operation_name="Both")
    assert reply["data"] == {
        "first": {"kind": "MLModel", "urn": model("m"), "description": "d"},
        "second": {"kind": "MLModelGroup", "urn": group("g"), "description": "e"},
    }


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        ("Int", "5", True),
        ("Int!", 5, True),
        ("Int", "five", False),
        ("Int", [5], False),
    ],
)
def test_whole_numbers_may_come_as_text(
    store: Store,
    declared: str,
    value: object,
    fits: bool,  # noqa: FBT001
) -> None:
    query = f"""query ($urn: String!, $n: {declared}) {{ entity(urn: $urn) {{
        relationships(input: {{types: [], direction: INCOMING, count: $n}}) {{ total }} }} }}"""
    reply = ask(store, query, urn=model("m"), n=value, unused="1")
    assert ("errors" not in reply) is fits


def test_whole_numbers_inside_inputs_and_lists(store: Store) -> None:
    query = """query ($urns: [String!]!, $inputs: RelationshipsInput!) {
        entities(urns: $urns) { relationships(input: $inputs) { total } } }"""
    inputs = {"types": ["MemberOf"], "direction": "INCOMING", "start": "0", "count": "2"}
    put(store, model("m"), mlModelProperties={})
    reply = ask(store, query, urns=[model("m")], inputs=inputs)
    assert reply["data"]["entities"] == [{"relationships": {"total": 0}}]
    reply = ask(store, query, urns=[model("m")], inputs={**inputs, "surplus": "1"})
    assert "surplus" in reply["errors"][0]["message"]


def test_texts_and_flags_are_converted_as_a_datahub_server_does(store: Store) -> None:
    query = """query ($urn: String!, $with: Boolean!) {
        entity(urn: $urn) { urn exists @include(if: $with) } }"""
    reply = ask(store, query, urn=5, **{"with": "true"})
    assert "'5' is not a URN" in reply["errors"][0]["message"]
    reply = ask(store, query, urn=model("m"), **{"with": "false"})
    assert reply["data"] == {"entity": {"urn": model("m")}}


def test_introspection_as_clients_send_it(store: Store) -> None:
    full = get_introspection_query(input_value_deprecation=True, specified_by_url=True)
    reply = ask(store, full, replace(DEFAULT_LIMITS, query_depth=3))
    assert "errors" not in reply
    names = {each["name"] for each in reply["data"]["__schema"]["types"]}
    assert {"MLModel", "MLModelGroup", "MLFeature", "MLFeatureTable", "Long"} <= names
    reply = ask(store, '{ __type(name: "RelationshipsInput") { inputFields { name } } }')
    assert {"name": "start"} in reply["data"]["__type"]["inputFields"]


# --- limits --------------------------------------------------------------------------------------

DEEP = "{ properties { groups " * 27 + "{ urn }" + " } }" * 27


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (f'{{ mlModel(urn: "u") {DEEP} }}', "maximum query depth exceeded 51 > 50"),
        ("{ " + "__typename " * 2_001 + "}", "maximum query complexity exceeded 2001 > 2000"),
        (
            "{ __typename } fragment unused on Query { " + "__typename " * 2_000 + "}",
            "maximum query complexity exceeded 2001 > 2000",
        ),
        (
            "{ ... on Query { ... on Query { " + "__typename " * 2_001 + "} } }",
            "maximum query complexity exceeded 2001 > 2000",
        ),
        ("{ " + "__typename " * 700 + " }", "the same fields too often"),
        (
            "{ ...f0 } "
            + " ".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(40))
            + " fragment f40 on Query { __typename }",
            "repeats its fragments too often",
        ),
        (
            "{ "
            + "... on Query { ...s } " * 300
            + "} fragment s on Query { "
            + "__typename " * 400
            + "}",
            "repeats its fragments too often",
        ),
        (
            "{ __schema { types { ...t } } } fragment t on __Type { ofType { ...t } }",
            "maximum query depth exceeded 51 > 50",
        ),
        ("{ " + "...a " * 7_500 + "}", "More than 15,000 'grammar' tokens have been presented."),
        ("#" * 1_048_577, "More than 1,048,576 characters have been presented."),
    ],
)
def test_what_asks_for_too_much_or_is_too_long_is_refused(
    store: Store, query: str, says: str
) -> None:
    reply = ask(store, query)
    assert reply["data"] is None
    assert says in reply["errors"][0]["message"]
    kind = "InvalidSyntax" if says.startswith("More than") else "ExecutionAborted"
    assert reply["errors"][0]["extensions"] == {"classification": kind}


def test_introspection_goes_in_no_circles(store: Store) -> None:
    for times, is_refused in ((2, False), (3, True), (4, True)):
        inner = "fields { type { " * times + "name" + " } }" * times
        reply = ask(store, f"{{ __schema {{ types {{ {inner} }} }} }}")
        assert (reply["data"] is None) is is_refused
        if is_refused:
            assert "introspection depth exceeded" in reply["errors"][0]["message"]


def test_nesting_that_no_parser_can_follow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(store, "{a" * 5_000)
    assert reply["errors"][0]["extensions"]["classification"] == "InvalidSyntax"

    def recursing(*_: object, **__: object) -> None:
        raise RecursionError

    # Older releases of graphql-core do not guard themselves.
    monkeypatch.setattr(execution, "parse", recursing)
    reply = ask(store, "{b" * 5_000)
    assert "too deeply" in reply["errors"][0]["message"]


def test_queries_are_answered_that_a_datahub_server_takes(store: Store) -> None:
    """A DataHub server takes 2,000 fields, and 50 levels."""
    put(store, model("m"), mlModelProperties={"groups": [group("g")]})
    put(store, group("g"), mlModelGroupProperties={})
    hop = """relationships(input: {types: ["MemberOf"], direction: %s, count: 1}) {
        relationships { entity { """
    hops = "".join(hop % ("INCOMING" if at % 2 else "OUTGOING") for at in range(16))
    deep = f'{{ entity(urn: "{model("m")}") {{ {hops} urn {"} } } " * 16} }} }}'
    reply = ask(store, deep)
    assert "errors" not in reply, reply["errors"][:1]
    node = reply["data"]["entity"]
    for _ in range(16):
        node = node["relationships"]["relationships"][0]["entity"]
    assert node == {"urn": model("m")}
    kinds = ["MLModel", "MLModelGroup", "MLFeatureTable", "Dataset", "Container"]
    fragments = " ".join(f"... on {kind} {{ urn type __typename }}" for kind in kinds * 60)
    wide = ask(store, f'{{ entity(urn: "{model("m")}") {{ {fragments} }} }}')
    assert "errors" not in wide
    shared = "fragment shared on Entity { " + "urn " * 150 + "}"
    fragments = " ".join(f"... on {kind} {{ ...shared }}" for kind in kinds * 10)
    repeated = ask(store, f'{{ entity(urn: "{model("m")}") {{ {fragments} }} }} {shared}')
    assert repeated["data"] == {"entity": {"urn": model("m")}}
    searches = " ".join(
        f's{n}: search(input: {{type: TAG, query: "*"}}) {{ total }}' for n in range(90)
    )
    assert ask(store, f"{{ {searches} }}")["data"] == {f"s{n}": {"total": 0} for n in range(90)}
    keys = " ".join(f"b{n}: name" for n in range(150))
    shared = f"fragment shared on MLModel {{ {keys} }}"
    places = " ".join(f'a{n}: mlModel(urn: "{model("m")}") {{ ...shared }}' for n in range(20))
    assert len(ask(store, f"{{ {places} }} {shared}")["data"]["a19"]) == 150


def test_the_size_of_an_answer_and_the_time_of_a_query_are_limited(store: Store) -> None:
    urns = [feature("t", f"f{index}") for index in range(600)]
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": urns})
    query = (
        f'{{ mlFeatureTable(urn: "{table("t")}") {{ properties {{ mlFeatures {{ name }} }} }} }}'
    )
    assert "errors" not in ask(store, query)
    reply = ask(store, query, replace(DEFAULT_LIMITS, query_values=50))
    assert reply["data"] is None
    assert reply["errors"][0]["message"] == "the answer has too many values; the limit is 50"
    reply = ask(store, query, replace(DEFAULT_LIMITS, query_seconds=-1))
    assert "took longer than" in reply["errors"][0]["message"]


def test_a_list_of_urns_is_limited(store: Store) -> None:
    query = "query ($urns: [String!]!) { entities(urns: $urns) { urn } }"
    reply = ask(store, query, replace(DEFAULT_LIMITS, page_size=1), urns=[model("a"), model("b")])
    assert reply["errors"][0]["message"] == "urns: more than 1"


# --- the cache -----------------------------------------------------------------------------------


def test_a_query_is_prepared_once_if_it_is_short() -> None:
    for query in (TYPENAME, "{ nothing }"):
        assert prepare(query, DEFAULT_LIMITS) is prepare(query, DEFAULT_LIMITS)
    assert prepare("{ nothing }", DEFAULT_LIMITS).document is None
    long = "#" * CACHED_CHARS + "\n{ __typename }"
    assert prepare(long, DEFAULT_LIMITS) is not prepare(long, DEFAULT_LIMITS)


# --- failures ------------------------------------------------------------------------------------


def test_what_nobody_foresaw_is_logged_and_not_shown(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, model("m"), mlModelProperties={})

    def broken(*_: object) -> None:
        raise RuntimeError("secret inner words")

    monkeypatch.setattr(store, "get_many", broken)
    reply = ask(store, f'{{ mlModel(urn: "{model("m")}") {{ name }} }}')
    assert reply["data"] == {"mlModel": None}
    (error,) = reply["errors"]
    assert error["message"] == "the server could not read this field"
    assert error["extensions"]["code"] == 500
    assert "secret inner words" in caplog.text


def test_an_error_of_the_catalog_keeps_its_words(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise BusyError("somebody else writes")

    monkeypatch.setattr(store, "get_many", busy)
    reply = ask(store, f'{{ mlModel(urn: "{model("m")}") {{ name }} }}')
    assert reply["errors"][0]["message"] == "somebody else writes"


# --- the schema ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5), (5.0, 5), ("7", 7), (-(2**63), -(2**63))],
)
def test_long_numbers(value: object, expected: int) -> None:
    assert schema._long(value) == expected


@pytest.mark.parametrize("value", [2**63, True, "x", 0.5, None, [1]])
def test_what_is_no_long(value: object) -> None:
    with pytest.raises(GraphQLError, match="Long cannot represent"):
        schema._long(value)


def test_long_literals() -> None:
    from graphql import IntValueNode, StringValueNode

    assert schema._long_literal(IntValueNode(value="12")) == 12
    with pytest.raises(GraphQLError, match="literal"):
        schema._long_literal(StringValueNode(value="12"))


def test_stored_text_that_an_enum_lacks_reads_as_null(store: Store) -> None:
    from mlcat_ingest.catalog.web.graphql.resolvers import KINDS, Cohort, Loader, Node

    node = Node("urn:li:mlModel:(p,n,mars)", KINDS["mlModel"], Cohort(Loader(store), []))
    made = schema.executable_schema()
    model_type = made.type_map["MLModel"]
    assert model_type.fields["origin"].resolve(node, None) is None  # type: ignore[attr-defined]


def test_references_that_cannot_be_read_do_no_harm(store: Store) -> None:
    from mlcat_ingest.catalog.web.graphql.resolvers import (
        KINDS,
        Cohort,
        Loader,
        Node,
        Record,
        node_of,
    )

    cohort = Cohort(Loader(store), [model("m")])
    node = Node("urn:li:mlModel:(open", KINDS["mlModel"], cohort)
    assert node.part(1) == "urn:li:mlModel:(open"
    assert node_of("junk", cohort) is None
    for value in (None, "junk", ["junk", 1], {"tag": "junk"}):
        assert Record(node, {"tag": value}, ("globalTags", "tags")).entities("tag") == []
