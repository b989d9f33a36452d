"""Errors of queries, in graphql-java's words where clients meet them."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer


def errors(store: Store, query: str, **variables: Any) -> Any:
    reply = answer(store, query, variables)
    assert reply["data"] is None
    return reply["errors"]


@pytest.mark.parametrize(
    ("query", "column", "message"),
    [
        ("{nope}", 2, "(FieldUndefined@[nope]) : Field 'nope' in type 'Query' is undefined"),
        (
            '{a:mlModel(urn:"u"){properties{nope}}}',
            32,
            (
                "(FieldUndefined@[mlModel/properties/nope]) : "
                "Field 'nope' in type 'MLModelProperties' is undefined"
            ),
        ),
        (
            '{mlModel(urn:"u"){...F}} fragment F on MLModel{nope}',
            48,
            "(FieldUndefined@[F/nope]) : Field 'nope' in type 'MLModel' is undefined",
        ),
        ("{mlModel{urn}}", 2, "(MissingFieldArgument@[mlModel]) : Missing field argument 'urn'"),
        (
            '{mlModel(urn:"u",x:1){urn}}',
            18,
            "(UnknownArgument@[mlModel]) : Unknown field argument 'x'",
        ),
        ("{__typename @foo}", 13, "(UnknownDirective@[__typename]) : Unknown directive 'foo'"),
        ("{...X}", 2, "(UndefinedFragment) : Undefined fragment 'X'"),
        (
            '{mlModel(urn:"u"){...on Nope{urn}}}',
            25,
            "(UnknownType@[mlModel]) : Unknown type 'Nope'",
        ),
        (
            "{...X} fragment X on Query{...X}",
            8,
            "(FragmentCycle@[X]) : Fragment cycles not allowed",
        ),
        ("{mlModel(urn:$u){urn}}", 14, "(UndefinedVariable@[mlModel]) : Undefined variable 'u'"),
        ("query($x:Int){__typename}", 7, "(UnusedVariable) : Unused variable 'x'"),
        ("{__typename} fragment X on MLModel{urn}", 14, "(UnusedFragment) : Unused fragment 'X'"),
        (
            '{mlModel(urn:"u"){...on Dataset{urn}}}',
            19,
            (
                "(InvalidFragmentType@[mlModel]) : Fragment cannot be spread here as objects "
                "of type 'MLModel'"
                " can never be of type 'Dataset'"
            ),
        ),
        (
            '{mlModel(urn:"u"){name{x}}}',
            19,
            (
                "(SubselectionNotAllowed@[mlModel/name]) : Subselection not allowed on"
                " leaf type 'String!' of field 'name'"
            ),
        ),
        (
            "query($u:String){mlModel(urn:$u){urn}}",
            30,
            (
                "(VariableTypeMismatch@[mlModel]) : Variable 'u' of type 'String'"
                " used in position expecting type 'String!'"
            ),
        ),
    ],
)
def test_a_query_that_is_not_valid(store: Store, query: str, column: int, message: str) -> None:
    error = errors(store, query)[0]
    assert error["message"] == f"Validation error {message}"
    assert error["locations"][0] == {"line": 1, "column": column}
    assert error["extensions"] == {"classification": "ValidationError"}
    assert "path" not in error


def test_an_error_without_a_translation_keeps_its_sentence(store: Store) -> None:
    (error,) = errors(store, "{mlModel(urn:5){urn}}")
    assert error["message"] == ("Validation error : String cannot represent a non string value: 5")
    assert error["locations"] == [{"line": 1, "column": 14}]
    assert error["extensions"] == {"classification": "ValidationError"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{mlModel(", "with offending token '<EOF>' at line 1 column 10"),
        ("}", "with offending token '}' at line 1 column 1"),
        ("{a\n(b:)}", "with offending token ')' at line 2 column 4"),
        ('{a(b:"c" ...)}', "with offending token '...' at line 1 column 10"),
    ],
)
def test_a_text_that_is_no_query(store: Store, query: str, message: str) -> None:
    (error,) = errors(store, query)
    assert error["message"] == f"Invalid syntax {message}"
    assert error["extensions"] == {"classification": "InvalidSyntax"}


def test_an_operation_that_there_is_not(store: Store) -> None:
    (error,) = errors(store, "subscription { __typename }")
    assert error["message"] == "Schema is not configured for subscriptions."
    assert error["extensions"] == {"classification": "OperationNotSupported"}


NULL = (
    "Variable 'u' has an invalid value: Variable 'u' has coerced Null value for "
    "NonNull type 'String!'"
)
SEARCH = "query($i:SearchInput!){search(input:$i){total}}"


@pytest.mark.parametrize(
    ("query", "variables", "message"),
    [
        ("query($u:String!){mlModel(urn:$u){urn}}", {}, NULL),
        ("query($u:String!){mlModel(urn:$u){urn}}", {"u": None}, NULL),
        (
            SEARCH,
            {"i": {"type": "NOPE", "query": "*"}},
            (
                "Variable 'i' has an invalid value: Invalid input for enum 'EntityType'. No value "
                "found for name 'NOPE'"
            ),
        ),
        (
            SEARCH,
            {"i": {"type": "MLMODEL", "query": "*", "nope": 1}},
            (
                "The variables input contains a field name 'nope' that is not defined for input "
                "object type 'SearchInput' "
            ),
        ),
    ],
)
def test_variables_that_do_not_fit(
    store: Store, query: str, variables: dict[str, Any], message: str
) -> None:
    (error,) = errors(store, query, **variables)
    assert error["message"] == message
    assert error["extensions"] == {"classification": "ValidationError"}


def test_the_value_of_a_variable_is_not_repeated(store: Store) -> None:
    (error,) = errors(store, SEARCH, i="a secret")
    assert error["message"] == (
        "Variable 'i' has an invalid value: Expected type 'SearchInput' to be a mapping"
    )
