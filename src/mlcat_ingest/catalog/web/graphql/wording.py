"""Errors about a query, in the words of graphql-java, which DataHub's server runs on.

graphql-core finds the same errors by the same rules of the specification, so that a table of
sentences is all that differs. Source: graphql-java's `i18n/Validation.properties`,
`i18n/Parsing.properties` and `ValuesResolver`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from graphql import (
    ArgumentNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSyntaxError,
    Node,
    OperationDefinitionNode,
    VariableDefinitionNode,
    parse,
    print_ast,
)

_MAX_VALUE_CHARS: Final = 200

VALIDATION: Final = "ValidationError"
SYNTAX: Final = "InvalidSyntax"
ABORTED: Final = "ExecutionAborted"

# A row: the kind of error and graphql-core's sentence, then graphql-java's. The place is the first
# node that graphql-core names, or the last one, or the nearest node of a kind around it.
_VALIDATION: Final = """
FieldUndefined: Cannot query field '*' on type '*'.
    Field '{0}' in type '{1}' is undefined
MissingFieldArgument: Field '*' argument '*' of type
    Missing field argument '{1}'
MissingDirectiveArgument: Directive '@*' argument '*' of type
    Missing directive argument '{1}'
UnknownArgument: Unknown argument '*' on field
    Unknown field argument '{0}'
UnknownDirective: Unknown argument '*' on directive
    Unknown directive argument '{0}'
UnknownDirective: Unknown directive '@*'
    Unknown directive '{0}'
MisplacedDirective: Directive '@*' may not be used on
    Directive '{0}' not allowed here
DuplicateDirectiveName last: The directive '@*' can only be used once
    Non repeatable directives must be uniquely named within a location. The directive '{0}' used \
on a 'Field' is not unique
UndefinedFragment FragmentSpread: Unknown fragment '*'
    Undefined fragment '{0}'
UnknownType: Unknown type '*'
    Unknown type '{0}'
LoneAnonymousOperationViolation: This anonymous operation must be the only
    Anonymous operation with other operations
FragmentCycle FragmentDefinition: Cannot spread fragment '*' within itself
    Fragment cycles not allowed
UndefinedVariable: Variable '$*' is not defined
    Undefined variable '{0}'
UnusedVariable: Variable '$*' is never used
    Unused variable '{0}'
UnusedFragment: Fragment '*' is never used
    Unused fragment '{0}'
FieldsConflict all: Fields '*' conflict because '*' and '*' are different fields
    '{0}' : '{1}' and '{2}' are different fields
FieldsConflict all: Fields '*' conflict because they have differing arguments
    '{0}' : fields have different arguments
FieldsConflict all: Fields '*' conflict because they return conflicting types '*' and '*'
    '{0}' : returns different types '{1}' and '{2}'
FieldsConflict all: Fields '*' conflict
    '{0}' : fields cannot be merged
InvalidFragmentType: Fragment '*' cannot be spread here as objects of type '*' can never be of \
type '*'
    Fragment '{0}' cannot be spread here as objects of type '{1}' can never be of type '{2}'
InvalidFragmentType: Fragment cannot be spread here as objects of type '*' can never be of type '*'
    Fragment cannot be spread here as objects of type '{0}' can never be of type '{1}'
SubselectionNotAllowed Field: Field '*' must not have a selection since type '*'
    Subselection not allowed on leaf type '{1}' of field '{0}'
SubselectionRequired: Field '*' of type '*' must have a selection
    Subselection required for type '{1}' of field '{0}'
DuplicateArgumentNames last Argument: There can be only one argument named '*'
    There can be only one argument named '{0}'
UniqueObjectFieldName last: There can be only one input field named '*'
    There can be only one field named '{0}'
DuplicateFragmentName last FragmentDefinition: There can be only one fragment named '*'
    There can be only one fragment named '{0}'
DuplicateOperationName last OperationDefinition: There can be only one operation named '*'
    There can be only one operation named '{0}'
DuplicateVariableName last VariableDefinition: There can be only one variable named '$*'
    There can be only one variable named '{0}'
VariableTypeMismatch last: Variable '$*' of type '*' used in position expecting type '*'
    Variable '{0}' of type '{1}' used in position expecting type '{2}'
NonInputTypeOnVariable VariableDefinition: Variable '$*' cannot be non-input type '*'
    Input variable '{0}' type '{1}' is not an input type
InlineFragmentTypeConditionInvalid: Fragment cannot condition on non composite type
    Inline fragment type condition is invalid, must be on Object/Interface/Union
FragmentTypeConditionInvalid: Fragment '*' cannot condition on non composite type
    Fragment type condition is invalid, must be on Object/Interface/Union
NullValueForNonNullArgument Field: Expected value of type '*!', found null
    Null value for non-null field argument '{argument}'
WrongType Argument: Field '*.*' of required type '*' was not provided
    argument '{argument}' with value '{value}' is missing required fields '[{1}]'
WrongType Argument: Field '*' is not defined by type '*'
    argument '{argument}' with value '{value}' contains a field not in '{1}': '{0}'
WrongType Argument: Value '*' does not exist in '*' enum
    argument '{argument}' with value '{value}' is not a valid '{1}'
WrongType Argument: Enum '*' cannot represent
    argument '{argument}' with value '{value}' is not a valid '{0}'
WrongType Argument: Expected value of type '*', found
    argument '{argument}' with value '{value}' is not a valid '{0}'
WrongType Argument: * cannot represent
    argument '{argument}' with value '{value}' is not a valid '{0}'
"""

_VARIABLES: Final = """
: of required type '*' was not provided
    Variable '{name}' has coerced Null value for NonNull type '{0}'
: of non-null type '*' must not be null
    Variable '{name}' has coerced Null value for NonNull type '{0}'
: *Field '*' of required type '*' was not provided
    Field '{1}' has coerced Null value for NonNull type '{2}'
: * at '*.*'; Expected non-nullable type '*' not to be None
    Field '{2}' has coerced Null value for NonNull type '{3}'
: *; Value '*' does not exist in '*' enum
    Invalid input for enum '{2}'. No value found for name '{1}'
: got invalid value *; *.
    {1}
"""

_KINDS: Final[Mapping[str, type[Node]]] = {
    "Argument": ArgumentNode,
    "Field": FieldNode,
    "FragmentDefinition": FragmentDefinitionNode,
    "FragmentSpread": FragmentSpreadNode,
    "OperationDefinition": OperationDefinitionNode,
    "VariableDefinition": VariableDefinitionNode,
}


class _Sentence(NamedTuple):
    pattern: re.Pattern[str]
    kind: str
    where: frozenset[str]
    sentence: str


def _rows(table: str) -> list[_Sentence]:
    lines = table.strip("\n").split("\n")
    rows = []
    for heading, sentence in zip(lines[::2], lines[1::2], strict=True):
        at, _, wanted = heading.partition(": ")
        kind, *where = at.split() or [""]
        pattern = re.compile(re.escape(wanted).replace(r"\*", "(.+?)"), re.DOTALL)
        rows.append(_Sentence(pattern, kind, frozenset(where), sentence.strip()))
    return rows


_VALIDATION_ROWS: Final = _rows(_VALIDATION)
_VARIABLE_ROWS: Final = _rows(_VARIABLES)

_WITHOUT_PLACE: Final = frozenset({"UnusedFragment"})
"""Kinds that graphql-java finds once it has seen the whole document."""


def query_error(
    message: str, classification: str, nodes: Sequence[Node] | None = None, **more: Any
) -> GraphQLError:
    """Return an error of a `classification`, which clients find among its extensions."""
    return GraphQLError(message, nodes, extensions={"classification": classification}, **more)


class _Place(NamedTuple):
    """The place of a node in its document: the names of the fields around it, and the nodes."""

    path: tuple[str, ...] = ()
    around: tuple[Node, ...] = ()

    def nearest(self, kind: type[Node]) -> Node | None:
        return next((node for node in reversed(self.around) if isinstance(node, kind)), None)


def validation_errors(
    document: DocumentNode, errors: Iterable[GraphQLError]
) -> tuple[GraphQLError, ...]:
    """Return the errors that graphql-core found in `document`, as graphql-java words them.

    Cost: one walk through the document.
    """
    places = dict(_places(document, _Place()))
    return tuple(_validation_error(error, places) for error in errors)


def _places(node: Node, outer: _Place) -> Iterator[tuple[int, _Place]]:
    path = outer.path
    if isinstance(node, FieldNode | FragmentDefinitionNode):
        path = (*path, node.name.value)
    place = _Place(path, (*outer.around, node))
    yield id(node), place
    for key in node.keys:
        inner = getattr(node, key)
        for child in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(child, Node):
                yield from _places(child, place)


def _validation_error(error: GraphQLError, places: Mapping[int, _Place]) -> GraphQLError:
    nodes = error.nodes or []
    for row in _VALIDATION_ROWS:
        match = row.pattern.match(error.message)
        if match is None or not nodes:
            continue
        node = nodes[-1 if "last" in row.where else 0]
        place = places.get(id(node), _Place())
        around = (place.nearest(kind) for name, kind in _KINDS.items() if name in row.where)
        path = () if row.kind in _WITHOUT_PLACE else place.path
        at = f"{row.kind}@[{'/'.join(path)}]" if path else row.kind
        sentence = row.sentence.format(*match.groups(), **_argument(place))
        reported = nodes if "all" in row.where else [next(around, None) or node]
        return query_error(f"Validation error ({at}) : {sentence}", VALIDATION, reported)
    return query_error(f"Validation error : {error.message}", VALIDATION, nodes)


def _argument(place: _Place) -> dict[str, str]:
    """Return the name and the value of the argument that a place is in."""
    node = place.nearest(ArgumentNode)
    if not isinstance(node, ArgumentNode):
        return {"argument": "", "value": ""}
    value = " ".join(print_ast(node.value).split())
    return {"argument": node.name.value, "value": value[:_MAX_VALUE_CHARS]}


_TOKEN: Final = re.compile(r'\.\.\.|\w+|"(?:[^"\\]|\\.)*"|\S')


def syntax_error(text: str, error: GraphQLSyntaxError) -> GraphQLError:
    """Return the error for a text that is no document; it names the token that does not fit."""
    at = next(iter(error.positions or ()), len(text))
    token = _TOKEN.match(text, at)
    shown = token[0][:_MAX_VALUE_CHARS] if token else "<EOF>"
    line, column = next(iter(error.locations or ()), (1, 1))
    sentence = "Invalid syntax with offending token"
    if token is not None and _is_document(text[:at]):
        sentence = (
            "Invalid syntax encountered. There are extra tokens in the text that have not been "
            "consumed. Offending token"
        )
    message = f"{sentence} '{shown}' at line {line} column {column}"
    return query_error(message, SYNTAX, source=error.source, positions=error.positions)


def _is_document(text: str) -> bool:
    try:
        return bool(parse(text, no_location=True).definitions)
    except GraphQLSyntaxError:
        return False


_VARIABLE: Final = re.compile(r"Variable '\$(\w+)' (.+)", re.DOTALL)
_UNDEFINED_FIELD: Final = re.compile(r".*Field '(\w+)' is not defined by type '(\w+)'", re.DOTALL)


def variable_error(error: GraphQLError) -> GraphQLError:
    """Return the error for variables that do not fit the query."""
    undefined = _UNDEFINED_FIELD.match(error.message)
    if undefined is not None:
        field, owner = undefined.groups()
        # The space at the end is graphql-java's, which also gives no place.
        return query_error(
            f"The variables input contains a field name '{field}' that is not defined for "
            f"input object type '{owner}' ",
            VALIDATION,
        )
    variable = _VARIABLE.match(error.message)
    name, problem = variable.groups() if variable else ("", error.message)
    for row in _VARIABLE_ROWS:
        match = row.pattern.match(problem)
        if match is not None:
            problem = row.sentence.format(*match.groups(), name=name)
            break
    return query_error(
        f"Variable '{name}' has an invalid value: {problem}", VALIDATION, error.nodes
    )
