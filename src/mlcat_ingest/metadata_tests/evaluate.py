"""Evaluation of metadata tests: which tests an entity passes and which it fails.

Paths of properties are read for many entities with a few calls.
A path is dotted: an aspect, then its fields, through lists and maps. Behind a value that is
a URN, the path goes on with an aspect of that entity, as in
``glossaryTerms.terms.urn.glossaryTermInfo.parentNode``. Three things make it fit for ML metadata:

- in a list of named things a name picks one: ``mlModelProperties.trainingMetrics.accuracy`` is the
  value of that metric (a field of the things, such as ``value``, goes before a name);
- of the keys of a map the longest that fits is taken, so keys with dots need no quoting;
- ``length`` behind a list is how many entries it has.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypedDict

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.errors import DefinitionError, InvalidUrnError
from mlcat_ingest.metadata.aspects import (
    EDITABLE_SCHEMA_METADATA,
    SCHEMA_METADATA,
    STRUCTURED_PROPERTIES,
)
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of
from mlcat_ingest.metadata_tests.definition import (
    FIELDS_DESCRIBED,
    OPERATORS,
    All,
    AnyOf,
    Comparison,
    Definition,
    Not,
    Predicate,
    comparisons,
    is_empty,
    read_definition,
    regex_match,
)

MAX_HOPS: Final = 3
"""How many URNs one path may pass through to further entities."""

_ALIASES: Final = {"schemaFields": (SCHEMA_METADATA, "fields")}
_SCHEMAS: Final = (SCHEMA_METADATA, EDITABLE_SCHEMA_METADATA)
_TIMES: Final = frozenset({"__firstSynchronized", "__lastSynchronized", "__lastObserved"})
_WRAPPERS: Final = frozenset({"string", "int", "long", "float", "double", "boolean"})
_STRUCTURED_PROPERTY: Final = "urn:li:structuredProperty:"

_Segments = tuple[str, ...]


class _TestResult(TypedDict):
    """How one metadata test went, under which version of its definition (MD5), and when."""

    test: str
    type: Literal["SUCCESS", "FAILURE"]
    testDefinitionMd5: str
    lastComputed: Mapping[str, Any]


class TestResults(TypedDict):
    """The metadata tests that an entity fails and passes."""

    failing: list[_TestResult]
    passing: list[_TestResult]


class _TimedAspect(Protocol):
    """An aspect as a catalog stores it; times are milliseconds since the epoch."""

    @property
    def value(self) -> Mapping[str, Any]:
        """The fields of the aspect."""

    @property
    def created_ms(self) -> int:
        """The time of its first version."""

    @property
    def modified_ms(self) -> int:
        """The time of its last change."""

    @property
    def system_metadata(self) -> Mapping[str, Any]:
        """The metadata of the write, from its writer."""


FetchAspects = Callable[
    [Collection[str], Collection[str] | None], Mapping[str, Mapping[str, _TimedAspect | None]]
]
"""Returns the named aspects (None: all) of each URN, by URN and aspect name.

An entity that does not exist has no entry. More aspects than the named ones do no harm. None in
place of an aspect says that it cannot be read.
"""


class _UnreadableAspectError(Exception):
    """A property path needs an aspect that cannot be read."""


def reads_times(path: str) -> bool:
    """Return whether a property path asks when a catalog stored something."""
    return path.rpartition(".")[2] in _TIMES


class _PropertyReader:
    """Reads property paths of some entities; URNs on the way are noted and `load`ed all at once.

    Cost: one `fetch` when built, and one a `load`; of the entities the aspects that `paths`
    begin with are in memory, and of those that they lead to the aspects on the way.
    """

    def __init__(self, fetch: FetchAspects, urns: Collection[str], paths: Iterable[str]) -> None:
        """Load those aspects of `urns` that `paths` begin with."""
        self._fetch = fetch
        self._names = _first_aspects(paths)
        self._entities = fetch(urns, self._names)
        self._linked: dict[tuple[str, str], _TimedAspect | None] = {}
        self._unreadable: set[tuple[str, str]] = set()
        self._pending: set[tuple[str, str]] = set()
        self._missed = False

    def exists(self, urn: str) -> bool:
        """Return whether the catalog has `urn`, one of the entities."""
        return urn in self._entities

    def load(self) -> bool:
        """Load what `values` lacked since the last call, and return whether there was anything."""
        if not self._pending:
            return False
        urns, names = map(set, zip(*self._pending, strict=True))
        aspects = self._fetch(urns, names)
        for urn, name in self._pending:
            stored = aspects.get(urn, {})
            self._linked[urn, name] = stored.get(name)
            if name in stored and stored[name] is None:
                self._unreadable.add((urn, name))
        self._pending.clear()
        return True

    def values(self, urn: str, path: str) -> list[Any] | None:
        """Return all values at `path` of `urn`; None if something has to be loaded first.

        Raises:
            UnreadableAspectError: an aspect on the way cannot be read.
        """
        self._missed = False
        values = [*self._entity(urn, tuple(path.split(".")), MAX_HOPS)]
        return None if self._missed else values

    def _aspect(self, urn: str, name: str) -> Mapping[str, Any] | None:
        if urn in self._entities and (self._names is None or name in self._names):
            aspects = self._entities[urn]
            stored = aspects.get(name)
            if stored is None and name in aspects:
                raise _UnreadableAspectError
        elif (urn, name) in self._linked:
            stored = self._linked[urn, name]
            if (urn, name) in self._unreadable:
                raise _UnreadableAspectError
        else:
            self._pending.add((urn, name))
            self._missed = True
            return None
        return None if stored is None else stored.value

    def _entity(self, urn: str, path: _Segments, hops: int) -> Iterator[Any]:
        head, *rest = (*_ALIASES.get(path[0], path[:1]), *path[1:])
        if not rest and (special := self._special(urn, head)) is not None:
            yield from special
            return
        aspect = self._aspect(urn, head)
        if aspect is None:
            return
        if head == STRUCTURED_PROPERTIES and ".".join(rest).startswith(_STRUCTURED_PROPERTY):
            yield from _structured_values(aspect, ".".join(rest))
        else:
            yield from self._walk(aspect, tuple(rest), hops)

    def _special(self, urn: str, name: str) -> list[Any] | None:
        if name == "urn":
            return [urn]
        if name == "entityType":
            try:
                return [entity_type_of(urn)]
            except InvalidUrnError:
                return [""]
        if name == FIELDS_DESCRIBED:
            schema, edited = (self._aspect(urn, aspect) or {} for aspect in _SCHEMAS)
            return [_fields_described(schema, edited)]
        if name in _TIMES:
            return _times(list(filter(None, self._entities.get(urn, {}).values())), name)
        return None

    def _walk(self, value: Any, path: _Segments, hops: int) -> Iterator[Any]:
        if isinstance(value, list):
            if path == ("length",):
                yield len(value)
                return
            for item in value:
                yield from self._walk(item, path, hops)
        elif not path:
            if value is not None:
                yield _unwrap(value)
        elif isinstance(value, Mapping):
            yield from self._field(value, path, hops)
        elif hops and isinstance(value, str) and value.startswith(PREFIX):
            yield from self._entity(value, path, hops - 1)

    def _field(self, value: Mapping[str, Any], path: _Segments, hops: int) -> Iterator[Any]:
        for size in range(len(path), 0, -1):
            key, rest = ".".join(path[:size]), path[size:]
            if key in value:
                yield from self._walk(value[key], rest, hops)
                return
            if value.get("name") == key:
                # The path names this thing: without more it means the thing's value.
                yield from self._walk(value.get("value", value) if not rest else value, rest, hops)
                return


def _first_aspects(paths: Iterable[str]) -> frozenset[str] | None:
    """Return the aspects that `paths` begin with, None where that is all that an entity has."""
    names: set[str] = set()
    for path in paths:
        first = path.partition(".")[0]
        if reads_times(path):
            return None
        names.update(_SCHEMAS if first == FIELDS_DESCRIBED else _ALIASES.get(first, (first,))[:1])
    return frozenset(names)


def _unwrap(value: Any) -> Any:
    """Return the value inside a one-key union wrapper such as ``{"double": 0.5}``."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind in _WRAPPERS:
            return inner
    return value


def _structured_values(aspect: Mapping[str, Any], urn: str) -> Iterator[Any]:
    for assignment in aspect.get("properties") or []:
        if assignment.get("propertyUrn") == urn:
            yield from map(_unwrap, assignment.get("values") or [])


def _times(aspects: Collection[_TimedAspect], name: str) -> list[int]:
    if not aspects:
        return []
    if name == "__firstSynchronized":
        return [min(aspect.created_ms for aspect in aspects)]
    if name == "__lastSynchronized":
        return [max(aspect.modified_ms for aspect in aspects)]
    observed = (aspect.system_metadata.get("lastObserved") for aspect in aspects)
    return sorted(time for time in observed if isinstance(time, int))[-1:]


def _fields_described(schema: Mapping[str, Any], edited: Mapping[str, Any]) -> bool:
    described = {
        field.get("fieldPath")
        for field in edited.get("editableSchemaFieldInfo") or []
        if field.get("description")
    }
    fields = schema.get("fields") or []
    return bool(fields) and all(
        field.get("description") or field.get("fieldPath") in described for field in fields
    )


_SIDES: Final[tuple[Literal["passing", "failing"], ...]] = ("passing", "failing")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetadataTest:
    """A metadata test that can be evaluated; `md5` is that of the definition's text."""

    urn: str
    md5: str
    definition: Definition


def read_tests(infos: Mapping[str, Mapping[str, Any]]) -> list[MetadataTest]:
    """Return the tests of `testInfo` aspects, which are given by the URNs of their tests.

    Definitions that say nothing yet are left out; those that are rejected are logged, too.
    """
    tests: list[MetadataTest] = []
    for urn, info in infos.items():
        try:
            test = read_test(urn, info)
        except DefinitionError as error:
            sentence = error.problems[0]
            _log.warning("skipped metadata test %s: its definition %s", urn, sentence)
            continue
        if test is not None:
            tests.append(test)
    return tests


def read_test(urn: str, info: Mapping[str, Any]) -> MetadataTest | None:
    """Return the test of one `testInfo` aspect; None for a definition without content.

    Raises:
        DefinitionError: the definition is rejected.
        MissingExtraError: it holds a regular expression, and RE2 is not installed.
    """
    text = (info.get("definition") or {}).get("json")
    text = text if isinstance(text, str) else ""
    if is_empty(text):
        return None
    definition = read_definition(text)
    md5 = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return MetadataTest(urn, md5, definition)


def evaluate(
    fetch: FetchAspects,
    urns: Iterable[str],
    tests: Sequence[MetadataTest],
    actor: str,
    on_unreadable: Callable[[str, str], object] | None = None,
) -> dict[str, TestResults]:
    """Return the outcome of `tests` for each of `urns`, computed now and in the name of `actor`.

    An entity that does not exist, or that has no test about it, gives two empty lists. A test's
    actions are not carried out. A test that needs an aspect which cannot be read is in neither
    list; `on_unreadable` is called with the URNs of the entity and the test.

    Cost: one `fetch` for the entities, one for each further URN on a property path (three at most).
    """
    results = {urn: TestResults(passing=[], failing=[]) for urn in urns}
    paths = {path for test in tests for path in test.definition.paths()}
    reader = _PropertyReader(fetch, results.keys(), paths)
    existing = [urn for urn in results if reader.exists(urn)]
    stamp = {"time": now_ms(), "actor": actor}
    values = _values(reader, existing, tests)
    for urn in existing:
        for test in _about(tests, urn):
            match _outcome(test.definition, values, urn):
                case "passing" | "failing" as outcome:
                    result = _TestResult(
                        test=test.urn,
                        type="SUCCESS" if outcome == "passing" else "FAILURE",
                        testDefinitionMd5=test.md5,
                        lastComputed=stamp,
                    )
                    results[urn][outcome].append(result)
                case "unreadable" if on_unreadable is not None:
                    on_unreadable(urn, test.urn)
    return results


def merge_results(
    stored: Mapping[str, Any], fresh: TestResults, evaluated: frozenset[str] | None
) -> dict[str, list[Any]] | None:
    """Return the `testResults` aspect with `fresh` outcomes, None if no outcome changed.

    Stored outcomes of tests that are not among `evaluated` (None: all tests) stay. An outcome that
    did not change makes no new aspect, so `lastComputed` is the time when it was first found.
    """
    merged: dict[str, list[Any]] = {
        side: [
            *(
                entry
                for entry in stored.get(side) or []
                if evaluated is not None and entry.get("test") not in evaluated
            ),
            *fresh[side],
        ]
        for side in _SIDES
    }
    return merged if _outcomes(merged) != _outcomes(stored) else None


def _about(tests: Iterable[MetadataTest], urn: str) -> Iterable[MetadataTest]:
    entity_type = entity_type_of(urn)
    return (test for test in tests if test.definition.covers(entity_type))


@dataclass(frozen=True, slots=True)
class _PathValues:
    """The values at property paths, by URN and path, and the paths that cannot be read."""

    read: dict[tuple[str, str], Sequence[Any]] = field(default_factory=dict)
    unreadable: set[tuple[str, str]] = field(default_factory=set)

    def has(self, urn: str, predicate: Predicate) -> bool:
        """Return whether every path in `predicate` was read."""
        return not self.unreadable or all(
            (urn, one.path) in self.read for one in comparisons(predicate)
        )


def _values(
    reader: _PropertyReader, urns: Sequence[str], tests: Sequence[MetadataTest]
) -> _PathValues:
    """Return the values at every path that a test about an entity reads."""
    pending = {
        (urn, path)
        for urn in urns
        for test in _about(tests, urn)
        for path in test.definition.paths()
    }
    values = _PathValues()
    while pending:
        for urn, path in pending:
            try:
                loaded = reader.values(urn, path)
            except _UnreadableAspectError:
                values.unreadable.add((urn, path))
            else:
                if loaded is not None:
                    values.read[urn, path] = loaded
        pending -= values.read.keys()
        pending -= values.unreadable
        reader.load()
    return values


def _outcome(
    definition: Definition, values: _PathValues, urn: str
) -> Literal["passing", "failing", "unreadable"] | None:
    """Return the outcome of a test for an entity, None where the test is not about it."""
    if not values.has(urn, definition.conditions):
        return "unreadable"
    if not _holds(definition.conditions, values.read, urn):
        return None
    if not values.has(urn, definition.rules):
        return "unreadable"
    return "passing" if _holds(definition.rules, values.read, urn) else "failing"


def _holds(predicate: Predicate, values: Mapping[tuple[str, str], Sequence[Any]], urn: str) -> bool:
    match predicate:
        case Comparison(path, "regex_match", patterns=patterns):
            return regex_match(values[urn, path], patterns)
        case Comparison(path, operator, wanted):
            return OPERATORS[operator](values[urn, path], wanted)
        case Not(part):
            return not _holds(part, values, urn)
        case All(parts):
            return all(_holds(part, values, urn) for part in parts)
        case AnyOf(parts):
            return any(_holds(part, values, urn) for part in parts)


def _outcomes(results: Mapping[str, Any]) -> dict[str, set[tuple[Any, Any]]]:
    return {
        side: {
            (entry.get("test"), entry.get("testDefinitionMd5")) for entry in results.get(side) or []
        }
        for side in _SIDES
    }
