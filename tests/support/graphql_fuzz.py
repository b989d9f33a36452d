"""Random GraphQL queries over a schema, for Hypothesis: sound ones, and nearly sound ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
)
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

_WRONG = ("nope", "__typename { x }", "urn(a: 1)", "... on Nope { urn }", "...gone", "1", "{", "@x")
_TEXTS = ("", "*", "a b", "\\u0000", "'", '\\"', "🦊", "%", "urn:li:", "1", "-1", "true", "x" * 600)


@dataclass(frozen=True, slots=True)
class Queries:
    """How queries are made: over which schema, with which texts, how deep and how wide.

    `urns` are those of entities that are there, by object type; other URNs may be among `texts`.
    """

    schema: GraphQLSchema
    urns: Mapping[str, Sequence[str]]
    texts: Sequence[str]
    depth: int = 5
    width: int = 4

    def strategy(self, *, unsound: bool) -> st.SearchStrategy[str]:
        """Return queries and mutations; `unsound` ones have something in them that is wrong."""

        @st.composite
        def made(draw: Any) -> str:
            roots = {"query": self.schema.query_type, "mutation": self.schema.mutation_type}
            operation = draw(st.sampled_from(["query", "query", "query", "mutation"]))
            owner = roots[operation]
            assert owner is not None
            return f"{operation} {self._selection(draw, owner, self.depth, unsound=unsound)}"

        return made()

    def _selection(self, draw: Draw, owner: Any, depth: int, *, unsound: bool) -> str:
        names = sorted(owner.fields) if hasattr(owner, "fields") else []
        chosen = draw(st.lists(st.sampled_from([*names, "__typename"]), max_size=self.width))
        parts = ["__typename"]
        for place, name in enumerate(chosen):
            made = self._field(draw, owner, name, depth, unsound=unsound)
            # An alias of its own: fields of one answer key would have to be mergeable.
            parts.append(f"{owner.name}{depth}_{place}: {made}" if made else "")
        if isinstance(owner, GraphQLInterfaceType | GraphQLUnionType) and depth > 0:
            kinds = sorted(kind.name for kind in self.schema.get_possible_types(owner))
            for name in draw(st.lists(st.sampled_from(kinds), max_size=2, unique=True)):
                kind = self.schema.type_map[name]
                inner = self._selection(draw, kind, depth - 1, unsound=unsound)
                parts.append(f"... on {name} {inner}")
        if unsound and draw(st.integers(0, 9)) == 0:
            parts.append(draw(st.sampled_from(_WRONG)))
        return "{ " + " ".join(parts) + " }"

    def _field(self, draw: Draw, owner: Any, name: str, depth: int, *, unsound: bool) -> str:
        if name == "__typename":
            return name
        field = owner.fields[name]
        kind = get_named_type(field.type)
        # An entity is asked for what its own type has, or the query would find little.
        form = draw(st.sampled_from(sorted(self.urns))) if kind.name == "Entity" else kind.name
        given = []
        for argument, declared in field.args.items():
            if isinstance(declared.type, GraphQLNonNull) or draw(st.booleans()):
                known = self.urns.get(form) if argument == "urn" else None
                value = (
                    f'"{draw(st.sampled_from(known))}"'
                    if known
                    else self._value(draw, declared.type, unsound=unsound)
                )
                given.append(f"{argument}: {value}")
        shown = f"{name}({', '.join(given)})" if given else name
        if not isinstance(kind, GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType):
            return shown
        if depth <= 0:
            return ""
        if form != kind.name:
            inner = self._selection(draw, self.schema.type_map[form], depth - 1, unsound=unsound)
            return f"{shown} {{ ... on {form} {inner} }}"
        return f"{shown} {self._selection(draw, kind, depth - 1, unsound=unsound)}"

    def _value(self, draw: Draw, wanted: Any, *, unsound: bool) -> str:
        if unsound and draw(st.integers(0, 29)) == 0:
            return str(
                draw(st.sampled_from(["null", "[]", "{}", "1", '"x"', "NOPE", "$gone", "1e9"]))
            )
        match wanted:
            case GraphQLNonNull():
                return self._value(draw, wanted.of_type, unsound=unsound)
            case GraphQLList():
                size = draw(st.integers(0, 3))
                items = (self._value(draw, wanted.of_type, unsound=unsound) for _ in range(size))
                return f"[{', '.join(items)}]"
            case GraphQLEnumType():
                return str(draw(st.sampled_from(sorted(wanted.values))))
            case GraphQLInputObjectType():
                return self._object(draw, wanted, unsound=unsound)
            case _:
                return self._scalar(draw, wanted.name)

    def _object(self, draw: Draw, wanted: GraphQLInputObjectType, *, unsound: bool) -> str:
        given = [
            f"{name}: {self._value(draw, field.type, unsound=unsound)}"
            for name, field in wanted.fields.items()
            if isinstance(field.type, GraphQLNonNull) or draw(st.booleans())
        ]
        return "{" + ", ".join(given) + "}"

    def _scalar(self, draw: Draw, name: str) -> str:
        match name:
            case "Int" | "Long":
                return str(draw(st.sampled_from([0, 1, 2, 10, -1, 10_000, 2**31 - 1])))
            case "Float":
                return str(draw(st.floats(allow_nan=False, allow_infinity=False)))
            case "Boolean":
                return str(draw(st.booleans())).lower()
            case _:
                return f'"{draw(st.sampled_from([*self.texts, *_TEXTS]))}"'
