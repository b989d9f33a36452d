"""GraphQL documents, parsed and validated once within limits on their complexity.

The cache makes a repeated query cheap. Before validation the complexity check spreads the document
out as an executor would do it: fragments in their place, selections of the same answer key merged.
That bounds its depth, its size, its aliases, and how often one key is asked for twice, which
graphql-core compares pair by pair. A selection that several spreads bring to the same place counts
there once, as it is compared and answered once: DataHub's clients spread the same fragments for
forty entity types. Introspection may be as deep as clients make it, but may not go in circles
through the lists of the schema.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSyntaxError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    parse,
    validate,
)

from mlcat_ingest.catalog.errors import QueryTooComplexError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.web.graphql.schema import executable_schema

MAX_SCHEMA_LISTS: Final = 3
"""How often one path of an introspection query may pass through a list of the schema."""

MAX_SCHEMA_DEPTH: Final = 50
"""Deepest nesting of an introspection query, in fields."""

MAX_PAIRS: Final = 200_000
"""Most pairs of selections with the same answer key, over the whole document; each takes some 5 µs.

Fragments for forty entity types that select the same fields have them by the ten thousand.
"""

MAX_REPEATS: Final = 100_000
"""Most fields that are met while fragments are spread out, repeated ones counted again."""

_SCHEMA_LISTS: Final = frozenset({"fields", "interfaces", "possibleTypes", "inputFields"})
_INTROSPECTION: Final = frozenset({"__schema", "__type"})


@dataclass(frozen=True, slots=True)
class _AnswerPlace:
    """The place of a selection in the answer."""

    depth: int = 0
    introspecting: bool = False
    schema_lists: int = 0

    def below(self, name: str) -> "_AnswerPlace":
        """Return the place of what the field `name` selects."""
        introspecting = self.introspecting or name in _INTROSPECTION
        lists = self.schema_lists + (introspecting and name in _SCHEMA_LISTS)
        return replace(self, depth=self.depth + 1, introspecting=introspecting, schema_lists=lists)


def check_complexity(document: DocumentNode, limits: Limits) -> None:
    """Check every operation of `document`, and every fragment that none of them uses.

    Raises:
        QueryTooComplexError: a limit is passed; the sentence names it.

    Cost: linear in the limit on fields, however large the document would be when spread out.
    """
    _Check(document, limits).run()


def _check_limit(count: int, limit: int, message: str) -> None:
    if count > limit:
        raise QueryTooComplexError(message.format(limit))


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
        self._spreads = self._met = self._fields = self._aliases = self._pairs = 0

    def run(self) -> None:
        for definition in self._document.definitions:
            if isinstance(definition, OperationDefinitionNode):
                self._visit([definition.selection_set], _AnswerPlace())
        for name, fragment in self._fragments.items():
            if name not in self._used:
                self._visit([fragment.selection_set], _AnswerPlace())

    def _visit(self, sets: Sequence[SelectionSetNode], place: _AnswerPlace) -> None:
        self._check_place(place)
        for fields in self._merge(sets):
            self._pairs += len(fields) * (len(fields) - 1) // 2
            _check_limit(self._pairs, MAX_PAIRS, "the query repeats the same fields too often")
            below = [field.selection_set for field in fields if field.selection_set]
            if below:
                self._visit(below, place.below(fields[0].name.value))

    def _merge(self, sets: Sequence[SelectionSetNode]) -> list[list[FieldNode]]:
        """Return the fields of selection sets by their answer keys, each field once."""
        merged: dict[str, dict[int, FieldNode]] = {}
        for selected in sets:
            for field in self._spread(selected, set()):
                self._met += 1
                _check_limit(self._met, MAX_REPEATS, "the query repeats its fragments too often")
                key = field.alias.value if field.alias else field.name.value
                same = merged.setdefault(key, {})
                if id(field) not in same:
                    same[id(field)] = field
                    self._count(field)
        return [list(fields.values()) for fields in merged.values()]

    def _check_place(self, place: _AnswerPlace) -> None:
        if place.introspecting:
            if place.schema_lists > MAX_SCHEMA_LISTS or place.depth > MAX_SCHEMA_DEPTH:
                raise QueryTooComplexError("the introspection query is nested too deeply")
        else:
            most = self._limits.query_depth
            _check_limit(place.depth + 1, most, "the query has too many levels; the limit is {}")

    def _count(self, field: FieldNode) -> None:
        limits = self._limits
        self._fields += 1
        _check_limit(
            self._fields, limits.query_fields, "the query has too many fields; the limit is {}"
        )
        self._aliases += field.alias is not None
        _check_limit(
            self._aliases, limits.query_aliases, "the query has too many aliases; the limit is {}"
        )

    def _spread(self, selected: SelectionSetNode, active: set[str]) -> Iterator[FieldNode]:
        """Yield the fields of a selection set, those of its fragments in their place."""
        for selection in selected.selections:
            if isinstance(selection, FieldNode):
                yield selection
                continue
            # Fragments that hold only fragments have no fields to count, so they count as such.
            self._spreads += 1
            most = self._limits.query_fields
            _check_limit(
                self._spreads, most, "the query has too many fragment spreads; the limit is {}"
            )
            if isinstance(selection, InlineFragmentNode):
                yield from self._spread(selection.selection_set, active)
            elif isinstance(selection, FragmentSpreadNode):
                yield from self._spread_named(selection.name.value, active)

    def _spread_named(self, name: str, active: set[str]) -> Iterator[FieldNode]:
        fragment = self._fragments.get(name)
        self._used.add(name)
        # Circles and unknown names are reported by validation.
        if fragment is not None and name not in active:
            yield from self._spread(fragment.selection_set, active | {name})


CACHED_BYTES: Final = 4_000_000
"""How much query text the cache holds, in characters; the least recently used goes first."""

_MAX_ERRORS: Final = 20


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that is ready to run, or the errors that it is refused with."""

    document: DocumentNode | None
    errors: tuple[GraphQLError, ...] = ()


class Documents:
    """Prepared queries by their text, least recently used first; safe for threads."""

    def __init__(self, limits: Limits) -> None:
        """Check queries against `limits`."""
        self._limits = limits
        self._lock = threading.Lock()
        self._prepared: OrderedDict[str, PreparedQuery] = OrderedDict()
        self._cached_chars = 0

    def prepare(self, query: str) -> PreparedQuery:
        """Return `query` parsed, checked and validated, from the cache if it is there.

        Cost: 2 ms or so for a query of 40 fields that is not in the cache, else nothing.
        """
        with self._lock:
            cached = self._prepared.get(query)
            if cached is not None:
                self._prepared.move_to_end(query)
                return cached
        prepared = _prepare(query, self._limits)
        with self._lock:
            if query not in self._prepared and len(query) <= CACHED_BYTES:
                self._prepared[query] = prepared
                self._cached_chars += len(query)
            while self._cached_chars > CACHED_BYTES:
                text, _ = self._prepared.popitem(last=False)
                self._cached_chars -= len(text)
        return prepared


def _prepare(query: str, limits: Limits) -> PreparedQuery:
    try:
        document = parse(query, no_location=False)
        check_complexity(document, limits)
        errors = validate(executable_schema(), document, max_errors=_MAX_ERRORS)
    except GraphQLSyntaxError as error:
        return PreparedQuery(None, (error,))
    except QueryTooComplexError as error:
        return PreparedQuery(None, (too_complex(error.message),))
    except RecursionError:
        return PreparedQuery(None, (too_complex("the query is nested too deeply to parse"),))
    return PreparedQuery(None, tuple(errors)) if errors else PreparedQuery(document)


def too_complex(message: str) -> GraphQLError:
    """Return the error for a query that goes beyond a limit."""
    return GraphQLError(message, extensions={"code": 400, "type": "QUERY_TOO_COMPLEX"})
