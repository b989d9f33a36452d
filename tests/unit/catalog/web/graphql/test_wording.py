"""Errors of queries, in graphql-java's words: its sentence, kind and place for each rule."""

from typing import Any

import pytest

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import GraphQLEndpoint, Request


def errors(store: Store, query: str, **variables: Any) -> Any:
    reply = GraphQLEndpoint(store, DEFAULT_LIMITS).answer(Request(query, variables))
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
            "{me{corpUser{urn @include}}}",
            18,
            "(MissingDirectiveArgument@[me/corpUser/urn]) : Missing directive argument 'if'",
        ),
        (
            '{mlModel(urn:"u",x:1){urn}}',
            18,
            "(UnknownArgument@[mlModel]) : Unknown field argument 'x'",
        ),
        (
            "{__typename @skip(if:true,x:1)}",
            27,
            "(UnknownDirective@[__typename]) : Unknown directive argument 'x'",
        ),
        ("{__typename @foo}", 13, "(UnknownDirective@[__typename]) : Unknown directive 'foo'"),
        (
            "query @skip(if:true){__typename}",
            7,
            ("(MisplacedDirective) : Directive 'skip' not allowed here"),
        ),
        (
            "{__typename @skip(if:true) @skip(if:true)}",
            28,
            (
                "(DuplicateDirectiveName@[__typename]) : Non repeatable directives must be "
                "uniquely named within a location. The directive 'skip' used on a 'Field' is "
                "not unique"
            ),
        ),
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
        (
            "{mlModel(urn:$u){urn}}",
            14,
            "(UndefinedVariable@[mlModel]) : Undefined variable 'u'",
        ),
        ("query($x:Int){__typename}", 7, "(UnusedVariable) : Unused variable 'x'"),
        (
            "{__typename} fragment X on MLModel{urn}",
            14,
            "(UnusedFragment) : Unused fragment 'X'",
        ),
        (
            '{a:mlModel(urn:"u"){urn} a:mlFeature(urn:"u"){urn}}',
            2,
            "(FieldsConflict@[mlModel]) : 'a' : 'mlModel' and 'mlFeature' are different fields",
        ),
        (
            '{mlModel(urn:"u"){urn} mlModel(urn:"v"){urn}}',
            2,
            "(FieldsConflict@[mlModel]) : 'mlModel' : fields have different arguments",
        ),
        (
            '{mlModel(urn:"u"){...on Dataset{urn}}}',
            19,
            (
                "(InvalidFragmentType@[mlModel]) : Fragment cannot be spread here as objects of "
                "type 'MLModel' can never be of type 'Dataset'"
            ),
        ),
        (
            '{mlModel(urn:"u"){...X}} fragment X on Dataset{urn}',
            19,
            (
                "(InvalidFragmentType@[mlModel]) : Fragment 'X' cannot be spread here as objects "
                "of type 'MLModel' can never be of type 'Dataset'"
            ),
        ),
        (
            '{mlModel(urn:"u"){name{x}}}',
            19,
            (
                "(SubselectionNotAllowed@[mlModel/name]) : Subselection not allowed on leaf type "
                "'String!' of field 'name'"
            ),
        ),
        (
            '{mlModel(urn:"u")}',
            2,
            (
                "(SubselectionRequired@[mlModel]) : Subselection required for type 'MLModel' of "
                "field 'mlModel'"
            ),
        ),
        (
            '{mlModel(urn:"u",urn:"v"){urn}}',
            18,
            "(DuplicateArgumentNames@[mlModel]) : There can be only one argument named 'urn'",
        ),
        (
            "query A{__typename} query A{__typename}",
            21,
            "(DuplicateOperationName) : There can be only one operation named 'A'",
        ),
        (
            "query($u:String!,$u:String!){mlModel(urn:$u){urn}}",
            18,
            "(DuplicateVariableName) : There can be only one variable named 'u'",
        ),
        (
            "query($u:String){mlModel(urn:$u){urn}}",
            30,
            (
                "(VariableTypeMismatch@[mlModel]) : Variable 'u' of type 'String' used in position "
                "expecting type 'String!'"
            ),
        ),
        (
            "query($u:MLModel){mlModel(urn:$u){urn}}",
            7,
            "(NonInputTypeOnVariable) : Input variable 'u' type 'MLModel' is not an input type",
        ),
        (
            "{...on String{x}}",
            8,
            (
                "(InlineFragmentTypeConditionInvalid) : Inline fragment type condition is invalid, "
                "must be on Object/Interface/Union"
            ),
        ),
        (
            "{mlModel(urn:null){urn}}",
            2,
            (
                "(NullValueForNonNullArgument@[mlModel]) : Null value for non-null field argument "
                "'urn'"
            ),
        ),
        (
            "{mlModel(urn:5){urn}}",
            10,
            "(WrongType@[mlModel]) : argument 'urn' with value '5' is not a valid 'String'",
        ),
        (
            "{search(input:{type:MLMODEL}){total}}",
            9,
            (
                "(WrongType@[search]) : argument 'input' with value '{type: MLMODEL}' is missing "
                "required fields '[query]'"
            ),
        ),
        (
            '{search(input:{type:NOPE,query:"*"}){total}}',
            9,
            (
                "(WrongType@[search]) : argument 'input' with value '{type: NOPE, query: \"*\"}' "
                "is not a valid 'EntityType'"
            ),
        ),
        (
            '{search(input:{type:MLMODEL,query:"*",nope:1}){total}}',
            9,
            (
                "(WrongType@[search]) : argument 'input' with value '{type: MLMODEL, query: \"*\", "
                "nope: 1}' contains a field not in 'SearchInput': 'nope'"
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


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{mlModel(", "with offending token '<EOF>' at line 1 column 10"),
        ("}", "with offending token '}' at line 1 column 1"),
        ("{a\n(b:)}", "with offending token ')' at line 2 column 4"),
        ('{a(b:"c" ...)}', "with offending token '...' at line 1 column 10"),
        (
            "{a} }",
            (
                "encountered. There are extra tokens in the text that have not been consumed. "
                "Offending token '}' at line 1 column 5"
            ),
        ),
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


SEARCH = "query($i:SearchInput!){search(input:$i){total}}"


@pytest.mark.parametrize(
    ("query", "variables", "message"),
    [
        (
            "query($u:String!){mlModel(urn:$u){urn}}",
            {},
            (
                "Variable 'u' has an invalid value: Variable 'u' has coerced Null value for "
                "NonNull type 'String!'"
            ),
        ),
        (
            "query($u:String!){mlModel(urn:$u){urn}}",
            {"u": None},
            (
                "Variable 'u' has an invalid value: Variable 'u' has coerced Null value for "
                "NonNull type 'String!'"
            ),
        ),
        (
            SEARCH,
            {"i": {"type": "MLMODEL"}},
            (
                "Variable 'i' has an invalid value: Field 'query' has coerced Null value for "
                "NonNull type 'String!'"
            ),
        ),
        (
            SEARCH,
            {"i": {"type": "MLMODEL", "query": None}},
            (
                "Variable 'i' has an invalid value: Field 'query' has coerced Null value for "
                "NonNull type 'String!'"
            ),
        ),
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
