"""What people type into the search box, taken apart. Nothing they type is an error.

    churn "customer leaves" platform:mlflow owner:jane metrics.auc>0.9 -tag:old

A word may be the beginning of one if it is the last; quotes keep words side by side. A field with
`:`, `=`, `!=`, `>`, `>=`, `<` or `<=` is a condition, `-` before it turns it round, `field:*` asks
whether there is a value at all and `field:begin*` how one begins. Commas part alternatives. What
names no field that is known here is words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.catalog.search.names import field_name
from mlcat_ingest.catalog.search.request import MATCH_ALL, Condition, Criterion
from mlcat_ingest.catalog.search.words import Term, term

MAX_CHARS: Final = 2000
"""Only so much of a query counts."""

MAX_TERMS: Final = 32
"""Only so many words of a query count."""

# The end of a quote may be missing while somebody types.
_CHUNK: Final = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')
_CONDITION: Final = re.compile(
    r"(?P<not>-?)(?P<field>[A-Za-z_][^\s:=<>!\"]*)(?P<operator>!=|>=|<=|[:=<>])(?P<value>.+)",
    re.DOTALL,
)
_COMPARED: Final[Mapping[str, Condition]] = {
    ">": Condition.GREATER_THAN,
    ">=": Condition.GREATER_THAN_OR_EQUAL_TO,
    "<": Condition.LESS_THAN,
    "<=": Condition.LESS_THAN_OR_EQUAL_TO,
}
_FIELDS: Final[Mapping[str, str]] = {
    "type": "_entityType",
    "kind": "_entityType",
    "platform": "platform",
    "env": "origin",
    "origin": "origin",
    "owner": "owners",
    "owners": "owners",
    "tag": "tags",
    "tags": "tags",
    "term": "glossaryTerms",
    "domain": "domains",
    "container": "container",
    "subtype": "typeNames",
    "group": "groups",
    "feature": "mlFeatures",
    "property": "customProperties",
    "name": "name",
    "description": "description",
    "removed": "removed",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A query taken apart: what to look for, as terms and as the text they come from; conditions.

    `impossible` is a query that says something, but nothing that a text could hold.
    """

    terms: tuple[Term, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    text: str = ""
    impossible: bool = False


def parse_query(text: str) -> Query:
    """Return what `text` asks for."""
    chunks = [chunk for chunk in _CHUNK.findall(text[:MAX_CHARS]) if chunk != MATCH_ALL]
    criteria: list[Criterion] = []
    terms: list[Term] = []
    words: list[str] = []
    for chunk in chunks:
        criterion = _criterion(chunk)
        if criterion is not None:
            criteria.append(criterion)
        elif found := term(chunk, prefix=chunk is chunks[-1] and not chunk.endswith('"')):
            terms.append(found)
            words.append(chunk.strip('"'))
    impossible = bool(chunks) and not terms and not criteria
    return Query(tuple(terms[:MAX_TERMS]), tuple(criteria[:MAX_TERMS]), " ".join(words), impossible)


def _criterion(chunk: str) -> Criterion | None:
    """Return the condition that a chunk is, None where it is none that is known."""
    found = _CONDITION.fullmatch(chunk)
    field = None if found is None else _field(found["field"])
    if found is None or field is None:
        return None
    values = tuple(value.strip('"') for value in found["value"].split(",") if value.strip('"'))
    if not values:
        return None
    negated = (found["not"] == "-") is not (found["operator"] == "!=")
    condition = _COMPARED.get(found["operator"])
    if condition is not None:
        return Criterion(field, values, condition, negated)
    if values == (MATCH_ALL,):
        return Criterion(field, (), Condition.EXISTS, negated)
    if len(values) == 1 and values[0].endswith(MATCH_ALL):
        return Criterion(field, (values[0][:-1],), Condition.START_WITH, negated)
    return Criterion(field, values, _equality(field), negated)


def _field(spelled: str) -> str | None:
    if field_name(spelled).name is not None:
        return spelled
    return _FIELDS.get(spelled.lower())


def _equality(field: str) -> Condition:
    """Return how people mean that a field is something: of a longer text it is a part."""
    if field in {"name", "description", "customProperties"}:
        return Condition.CONTAIN
    return Condition.IEQUAL
