"""What a query may ask for, judged from its document before it is validated or run.

The document is spread out as an executor would do it: fragments in their place, selections of the
same answer key merged. That bounds its depth, its size, its aliases, and how often one key is
asked for twice, which graphql-core compares pair by pair. Introspection may be as deep as clients
make it, but may not go in circles through the lists of the schema.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
)

from mlcat_ingest.catalog.errors import QueryTooComplexError
from mlcat_ingest.catalog.limits import Limits

MAX_SCHEMA_LISTS: Final = 3
"""How often one path of an introspection query may pass through a list of the schema."""

MAX_SCHEMA_DEPTH: Final = 50
"""Deepest nesting of an introspection query, in fields."""

MAX_PAIRS: Final = 200_000
"""Most pairs of selections with the same answer key, over the whole document; each takes some 3 µs.

Fragments for forty entity types that select the same fields have them by the ten thousand.
"""

_SCHEMA_LISTS: Final = frozenset({"fields", "interfaces", "possibleTypes", "inputFields"})
_INTROSPECTION: Final = frozenset({"__schema", "__type"})


@dataclass(frozen=True, slots=True)
class _AnswerPlace:
    """Where in the answer a selection stands."""

    depth: int = 0
    introspecting: bool = False
    schema_lists: int = 0

    def below(self, name: str) -> "_AnswerPlace":
        """Return the place of what the field `name` selects."""
        introspecting = self.introspecting or name in _INTROSPECTION
        lists = self.schema_lists + (introspecting and name in _SCHEMA_LISTS)
        return replace(self, depth=self.depth + 1, introspecting=introspecting, schema_lists=lists)


def check_complexity(document: DocumentNode, limits: Limits) -> None:
    """Judge every operation of `document`, and every fragment that none of them uses.

    Raises:
        QueryTooComplexError: a limit is passed; the sentence names it.

    Cost: linear in the limit on fields, however large the document would be when spread out.
    """
    _Check(document, limits).run()


class _Check:
    def __init__(self, document: DocumentNode, limits: Limits) -> None:
        self._limits = limits
        self._document = document
        self._fragments = {
            definition.name.value: definition
            for definition in document.definitions
            if isinstance(definition, FragmentDefinitionNode)
        }
        self._used: set[str] = set()
        self._spreads = self._fields = self._aliases = self._pairs = 0

    def run(self) -> None:
        for definition in self._document.definitions:
            if isinstance(definition, OperationDefinitionNode):
                self._visit([definition.selection_set], _AnswerPlace())
        for name, fragment in self._fragments.items():
            if name not in self._used:
                self._visit([fragment.selection_set], _AnswerPlace())

    def _visit(self, sets: Sequence[SelectionSetNode], place: _AnswerPlace) -> None:
        self._check_place(place)
        merged: dict[str, list[FieldNode]] = {}
        for selected in sets:
            for field in self._spread(selected, set()):
                self._count(field)
                key = field.alias.value if field.alias else field.name.value
                merged.setdefault(key, []).append(field)
        for fields in merged.values():
            self._pairs += len(fields) * (len(fields) - 1) // 2
            if self._pairs > MAX_PAIRS:
                raise QueryTooComplexError("the query asks for the same fields too often")
            below = [field.selection_set for field in fields if field.selection_set]
            if below:
                self._visit(below, place.below(fields[0].name.value))

    def _check_place(self, place: _AnswerPlace) -> None:
        if place.introspecting:
            if place.schema_lists > MAX_SCHEMA_LISTS or place.depth > MAX_SCHEMA_DEPTH:
                raise QueryTooComplexError("the introspection query goes in circles")
        elif place.depth >= self._limits.query_depth:
            raise QueryTooComplexError(
                f"the query is nested deeper than {self._limits.query_depth} fields"
            )

    def _count(self, field: FieldNode) -> None:
        self._fields += 1
        if self._fields > self._limits.query_fields:
            raise QueryTooComplexError(
                f"the query has more than {self._limits.query_fields} fields"
            )
        self._aliases += field.alias is not None
        if self._aliases > self._limits.query_aliases:
            raise QueryTooComplexError(
                f"the query has more than {self._limits.query_aliases} aliases"
            )

    def _spread(self, selected: SelectionSetNode, active: set[str]) -> Iterator[FieldNode]:
        """Yield the fields of a selection set, those of its fragments in their place."""
        for selection in selected.selections:
            if isinstance(selection, FieldNode):
                yield selection
                continue
            # Fragments that hold only fragments have no fields to count, so they count as such.
            self._spreads += 1
            if self._spreads > self._limits.query_fields:
                raise QueryTooComplexError(
                    f"the query spreads fragments more than {self._limits.query_fields} times"
                )
            if isinstance(selection, InlineFragmentNode):
                yield from self._spread(selection.selection_set, active)
            elif isinstance(selection, FragmentSpreadNode):
                yield from self._spread_named(selection.name.value, active)

    def _spread_named(self, name: str, active: set[str]) -> Iterator[FieldNode]:
        fragment = self._fragments.get(name)
        self._used.add(name)
        # Circles and unknown names are told by validation.
        if fragment is not None and name not in active:
            yield from self._spread(fragment.selection_set, active | {name})
