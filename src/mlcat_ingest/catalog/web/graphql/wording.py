"""Errors about a query, in the words of graphql-java, which DataHub's server runs on.

graphql-core finds the same errors by the same rules of the specification. The errors that clients
meet get graphql-java's sentence, kind and place; all others keep graphql-core's sentence.
Source: graphql-java's `i18n/Validation.properties`, `i18n/Parsing.properties`, `ValuesResolver`.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSyntaxError,
    Node,
    Visitor,
    visit,
)

VALIDATION: Final = "ValidationError"
SYNTAX: Final = "InvalidSyntax"
ABORTED: Final = "ExecutionAborted"


class _Translation(NamedTuple):
    """The beginning of a sentence of graphql-core, and what graphql-java makes of it.

    The place of the error is the first node that graphql-core names; with `at_last` the last one;
    with `around` the nearest node of that class around it.
    """

    pattern: re.Pattern[str]
    sentence: str
    kind: str = ""
    around: type[Node] | None = None
    at_last: bool = False


_UNUSED_FRAGMENT: Final = "UnusedFragment"
_NODES: Final = {
    node.__name__: node for node in (FieldNode, FragmentDefinitionNode, FragmentSpreadNode)
}


def _translations(about: str) -> tuple[_Translation, ...]:
    """Return the rows of `wording.csv` about queries, or about variables, in their order."""
    text = (files("mlcat_ingest.catalog.web.graphql") / "wording.csv").read_text(encoding="utf-8")
    return tuple(
        _Translation(
            re.compile(re.escape(row["core"]).replace(r"\*", "(.+?)"), re.DOTALL),
            row["java"],
            row["kind"],
            _NODES.get(row["place"]),
            at_last=row["place"] == "last",
        )
        for row in csv.DictReader(text.splitlines())
        if row["about"] == about
    )


_VALIDATION: Final = _translations("query")
_VARIABLES: Final = _translations("variables")


def query_error(
    message: str, classification: str, nodes: Sequence[Node] | None = None, **more: Any
) -> GraphQLError:
    """Return an error of a `classification`, which clients find among its extensions."""
    return GraphQLError(message, nodes, extensions={"classification": classification}, **more)


class _Places(Visitor):
    """The nodes around each node of a document, from the outermost on, and the node itself."""

    def __init__(self) -> None:
        super().__init__()
        self.around: dict[int, list[Node]] = {}

    def enter(self, *visited: Any) -> None:
        """Note the place of a node; the name is that of graphql-core."""
        node, _key, parent, _path, ancestors = visited
        self.around[id(node)] = [one for one in (*ancestors, parent, node) if isinstance(one, Node)]


def validation_errors(
    document: DocumentNode, errors: Iterable[GraphQLError]
) -> tuple[GraphQLError, ...]:
    """Return the errors that graphql-core found in `document`, as graphql-java words them.

    Cost: one walk through the document.
    """
    places = _Places()
    visit(document, places)
    return tuple(_validation_error(error, places.around) for error in errors)


def _validation_error(error: GraphQLError, places: Mapping[int, Sequence[Node]]) -> GraphQLError:
    nodes = error.nodes or []
    for translation in _VALIDATION:
        match = translation.pattern.match(error.message)
        if match is None or not nodes:
            continue
        node = nodes[-1 if translation.at_last else 0]
        around = places.get(id(node), ())
        named = (n for n in around if isinstance(n, FieldNode | FragmentDefinitionNode))
        # graphql-java finds unused fragments once it has seen the whole document.
        is_unused = translation.kind == _UNUSED_FRAGMENT
        path = "" if is_unused else "/".join(n.name.value for n in named)
        if translation.around is not None:
            node = next((n for n in reversed(around) if isinstance(n, translation.around)), node)
        at = f"{translation.kind}@[{path}]" if path else translation.kind
        sentence = translation.sentence.format(*match.groups())
        return query_error(f"Validation error ({at}) : {sentence}", VALIDATION, [node])
    return query_error(f"Validation error : {error.message}", VALIDATION, nodes)


_TOKEN: Final = re.compile(r'\.\.\.|\w+|"(?:[^"\\]|\\.)*"|\S')
_MAX_TOKEN_CHARS: Final = 200


def syntax_error(text: str, error: GraphQLSyntaxError) -> GraphQLError:
    """Return the error for a text that is no document; it names the token that does not fit."""
    token = _TOKEN.match(text, next(iter(error.positions or ()), len(text)))
    shown = token[0][:_MAX_TOKEN_CHARS] if token else "<EOF>"
    line, column = next(iter(error.locations or ()), (1, 1))
    message = f"Invalid syntax with offending token '{shown}' at line {line} column {column}"
    return query_error(message, SYNTAX, source=error.source, positions=error.positions)


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
    for translation in _VARIABLES:
        match = translation.pattern.match(problem)
        if match is not None:
            problem = translation.sentence.format(*match.groups(), name=name)
            break
    return query_error(
        f"Variable '{name}' has an invalid value: {problem}", VALIDATION, error.nodes
    )
