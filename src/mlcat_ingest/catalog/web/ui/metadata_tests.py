"""The pages of metadata tests: a definition in words, counts of outcomes, and an evaluation now."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import exists, or_, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.rows import CHUNK
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.rest.operations import evaluate_stored
from mlcat_ingest.catalog.web.ui.facts import Piece
from mlcat_ingest.catalog.web.ui.lists import KIND, NAME, ListColumn, Listing, names_of, rows_of
from mlcat_ingest.catalog.web.ui.text import entity_href, entity_type, kind_name
from mlcat_ingest.errors import DefinitionError, MissingExtraError
from mlcat_ingest.metadata.aspects import TEST_INFO, TEST_RESULTS
from mlcat_ingest.metadata.registry import ASPECTS, ENTITY_TYPES, allows
from mlcat_ingest.metadata_tests.definition import (
    FIELDS_DESCRIBED,
    All,
    AnyOf,
    Comparison,
    Definition,
    Not,
    Predicate,
)
from mlcat_ingest.metadata_tests.evaluate import read_test

AT_ONCE: Final = 10_000
"""Most entities that one press of the button evaluates."""

SHOWN_CHANGES: Final = 50
"""Most changed outcomes that are listed."""

_OUTCOMES: Final[Mapping[str, Literal["failing", "passing"]]] = {
    "IsFailing": "failing",
    "IsPassing": "passing",
}
"""Relationship of an entity to a test to the outcome that it stands for."""

_SUBJECTS: Final = {
    "browsePathsV2.path.id": "place",
    "dataPlatformInstance.platform": "platform",
    "domains.domains": "domain",
    "globalTags.tags": "tag",
    "globalTags.tags.tag": "tag",
    "glossaryTerms.terms": "glossary term",
    "glossaryTerms.terms.urn": "glossary term",
    "ownership.owners": "owner",
    "ownership.owners.owner": "owner",
    "subTypes.typeNames": "kind",
    "urn": "URN",
}
"""Property path to what a reader calls the property; other paths are spelled out."""

_NAMED: Final = {
    "customProperties": "property",
    "hyperParameters": "parameter",
    "hyperParams": "parameter",
    "onlineMetrics": "online metric",
    "trainingMetrics": "metric",
}
"""Field with named values to what a reader calls one of them."""

_VERBS: Final = {
    "equals": ("is", "is not"),
    "within": ("is", "is not"),
    "contains_any": ("is", "is not"),
    "not": ("is not", "is"),
    "starts_with": ("starts with", "does not start with"),
    "contains_str": ("contains", "does not contain"),
    "greater_than": ("is greater than", "is not greater than"),
    "less_than": ("is less than", "is not less than"),
    "exists": ("is set", "is not set"),
    "is_true": ("is true", "is not true"),
    "is_false": ("is false", "is not false"),
    "regex_match": ("matches", "does not match"),
    "schema_fields_have_descriptions": ("has a description", "has no description"),
}
"""Operator to its words, and to those of the opposite."""

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class _Clause:
    """A condition in words: `text` with its `values`, or what holds of the `parts` below it."""

    text: str
    values: tuple[Piece, ...] = ()
    parts: "tuple[_Clause, ...]" = ()


@dataclass(frozen=True, slots=True)
class RuleInWords:
    """A metadata test in words.

    Without a `problem` it applies to the `kinds` of entities, to those that satisfy the `condition`
    if there is one; they pass if they satisfy the `requirement`.
    """

    kinds: str = ""
    condition: _Clause | None = None
    requirement: _Clause | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class EvaluationNow:
    """An evaluation of one test: its counts, and the entities with other outcomes than before.

    `after_id` is where the next evaluation goes on; None where no entity is left.
    """

    evaluated: int
    passing: int
    failing: int
    changed: int
    changes: Listing
    after_id: int | None


def rule_in_words(store: Store, info: Mapping[str, Any]) -> RuleInWords:
    """Return the definition in a `testInfo` aspect in words, or why it has none.

    Cost: one SQL statement, for the names of what the definition refers to.
    """
    try:
        definition = _definition("", info)
    except BadRequestError as error:
        return RuleInWords(problem=error.message)
    texts = {text for one in definition.comparisons() for text in one.values}
    urns = sorted(text for text in texts if entity_type(text))
    values = {urn: Piece(name, entity_href(urn)) for urn, name in names_of(store, urns).items()}
    selects_all = definition.conditions == All(())
    return RuleInWords(
        kinds=_kinds(definition),
        condition=None if selects_all else _clause(definition.conditions, values),
        requirement=_clause(definition.rules, values),
    )


def _definition(urn: str, info: Mapping[str, Any]) -> Definition:
    """Return the definition of a test.

    Raises:
        BadRequestError: it has none, or one that cannot be evaluated here.
    """
    try:
        test = read_test(urn, info)
    except DefinitionError as error:
        raise BadRequestError(f"the definition {error.problems[0]}") from error
    except MissingExtraError as error:
        raise BadRequestError(str(error)) from error
    if test is None:
        raise BadRequestError("the test has no definition yet")
    return test.definition


def _kinds(definition: Definition) -> str:
    """Return the kinds of entities that a test is about, as the end of a sentence."""
    names = [kind_name(name, plural=True) for name in ENTITY_TYPES if definition.covers(name)]
    *most, last = sorted(names) or ["no entity, as it names no entity type of this catalog"]
    return f"{', '.join(most)} and {last}" if most else last


def _clause(predicate: Predicate, values: Mapping[str, Piece], *, negated: bool = False) -> _Clause:
    match predicate:
        case Not(part):
            return _clause(part, values, negated=not negated)
        case Comparison():
            return _comparison(predicate, values, negated=negated)
        case All((part,)) | AnyOf((part,)):
            return _clause(part, values, negated=negated)
        case All(()) | AnyOf(()):
            return _Clause("no entity" if negated == isinstance(predicate, All) else "every entity")
        case All():
            text = "not all of these hold:" if negated else "all of these hold:"
        case _:
            text = "none of these holds:" if negated else "at least one of these holds:"
    return _Clause(text, parts=tuple(_clause(part, values) for part in predicate.parts))


def _comparison(comparison: Comparison, names: Mapping[str, Piece], *, negated: bool) -> _Clause:
    verb = _VERBS[comparison.operator][negated]
    values = tuple(names.get(value) or Piece(f"“{value}”") for value in comparison.values)
    if len(values) > 1:
        verb += " any of" if "not" in verb else " one of"
    return _Clause(f"{_subject(comparison.path)} {verb}", values)


def _subject(path: str) -> str:
    """Return a property path as a reader calls the property."""
    if path == FIELDS_DESCRIBED:
        return "every field of the schema"
    if path in _SUBJECTS:
        return _SUBJECTS[path]
    *owner, last = path.split(".")
    if last == "length" and owner:
        return f"number of values of {_subject('.'.join(owner))}"
    aspect, _, rest = path.partition(".")
    shown = rest if rest and aspect in ASPECTS else path
    family, _, name = shown.partition(".")
    if name and family in _NAMED:
        return f"{_NAMED[family]} {name}"
    return " / ".join(_WORD_START.sub(" ", step).lower() for step in shown.split("."))


def evaluate_now(store: Store, urn: str, after_id: int) -> EvaluationNow:
    """Evaluate one test on its entities, store the outcomes, and return what changed.

    Its entities are those of its types, and those with a stored outcome of it.

    Raises:
        BadRequestError: `urn` is no test, or its definition cannot be evaluated.

    Cost: `AT_ONCE` entities are evaluated at most, from `after_id` on, a thousand at a time.
    """
    info = store.get_many([urn], {TEST_INFO}).get(urn, {}).get(TEST_INFO)
    if info is None:
        raise BadRequestError(f"{urn!r} is not a metadata test in this catalog")
    definition = _definition(urn, info.value)
    passing = failing = evaluated = 0
    changed: dict[str, tuple[str, str]] = {}
    last_id: int | None = after_id
    while last_id is not None and evaluated < AT_ONCE:
        page = store.read(_entities(urn, definition, last_id))
        urns = list(page)
        results = evaluate_stored(store, urns, [urn], push=True)
        for found, (entity_id, before) in page.items():
            after = next((side for side in _OUTCOMES.values() if results[found][side]), "")
            passing += after == "passing"
            failing += after == "failing"
            if before != after:
                changed[found] = before, after
            last_id = entity_id
        evaluated += len(urns)
        if len(urns) < CHUNK:
            last_id = None
    before_and_now = (
        ListColumn("Before", lambda row: changed[row.urn][0], "outcome"),
        ListColumn("Now", lambda row: changed[row.urn][1], "outcome"),
    )
    rows = rows_of(store, list(changed)[:SHOWN_CHANGES])
    changes = Listing(rows, (NAME, KIND, *before_and_now))
    return EvaluationNow(evaluated, passing, failing, len(changed), changes, last_id)


def _entities(
    urn: str, definition: Definition, after_id: int
) -> Callable[[Connection], dict[str, tuple[int, str]]]:
    """Return the query for the next entities of a test: URN to id and stored outcome."""
    types = [
        name for name in ENTITY_TYPES if definition.covers(name) and allows(name, TEST_RESULTS)
    ]
    tested = exists().where(
        edge.c.source_id == entity.c.id,
        edge.c.aspect == TEST_RESULTS,
        edge.c.destination == urn,
    )
    entities = (
        select(entity.c.id, entity.c.urn)
        .where(entity.c.id > after_id, or_(entity.c.entity_type.in_(types), tested))
        .where(~marked_removed(entity.c.id))
        .order_by(entity.c.id)
        .limit(CHUNK)
    )
    outcomes = select(edge.c.source_id, edge.c.relationship).where(
        edge.c.destination == urn, edge.c.relationship.in_(_OUTCOMES)
    )

    def read(connection: Connection) -> dict[str, tuple[int, str]]:
        rows = connection.execute(entities).all()
        stored = connection.execute(outcomes.where(edge.c.source_id.in_([row.id for row in rows])))
        before = {row.source_id: _OUTCOMES[row.relationship] for row in stored}
        return {row.urn: (row.id, before.get(row.id, "")) for row in rows}

    return read
