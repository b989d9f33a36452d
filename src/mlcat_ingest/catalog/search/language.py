"""The query language of the search box, and of searches behind `/q `: words and criteria.

    churn "customer leaves" platform:mlflow owner:jane,bob metrics.auc>0.9 -tag:old

It has the syntax of Elasticsearch's `query_string`: words, `field:value`, `field:"a phrase"`,
`field:prefix*`, `field:*suffix`, `field:>=5`, `field:[a TO b]`, `_exists_:field`,
`field:(a OR b)`, parentheses, AND, OR, NOT, `+`, `-`, and backslashes before special characters.
`field>=5`, `field=value` and `field!=value` mean `field:>=5`, `field:value` and its opposite,
commas part alternatives, and a name may be in quotes: `metrics."a b">5`. Boosts are passed over.
Words under OR or NOT are looked for in every text. Source: the query of DataHub's searches behind
`/q `.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

from mlcat_ingest.catalog.errors import BadRequestError, UnknownFieldError
from mlcat_ingest.catalog.limits import QUERY_LEVELS, SEARCH_CRITERIA
from mlcat_ingest.catalog.search.fields import ANYWHERE, field_name
from mlcat_ingest.catalog.search.predicates import SEARCHABLE, TIMES
from mlcat_ingest.catalog.search.request import MATCH_ALL, Alternatives, Condition, Criterion

_COMPARISONS: Final[Mapping[str, Condition]] = {
    ">": Condition.GREATER_THAN,
    ">=": Condition.GREATER_THAN_OR_EQUAL_TO,
    "<": Condition.LESS_THAN,
    "<=": Condition.LESS_THAN_OR_EQUAL_TO,
}

_ALIASES: Final[Mapping[str, str]] = {
    "type": "_entityType",
    "kind": "_entityType",
    "env": "origin",
    "owner": "owners",
    "tag": "tags",
    "term": "glossaryTerms",
    "domain": "domains",
    "subtype": "typeNames",
    "group": "groups",
    "feature": "mlFeatures",
    "property": "customProperties",
    "alias": "aliases",
}
"""Short name in a query to the field that it means."""

_MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("experiment", "registered_model", "model_group"), "group"),
    **dict.fromkeys(("user", "author", "created_by"), "owner"),
    **dict.fromkeys(("metric", "score"), "metrics"),
    **dict.fromkeys(("param", "parameter", "parameters", "hyperparameter"), "params"),
    "label": "tag",
}
"""Name that people try to the one that they mean."""

_FIELDS: Final = {**{name.lower(): name for name in SEARCHABLE}, **_ALIASES}

# Metrics and parameters, of which a query names one.
_NUMERIC: Final = ("metrics", "onlineMetrics", "params")
_USUAL: Final = (
    *sorted(_ALIASES),
    *("name", "description", "platform", "status", "tests", "version"),
    *("metrics.<name>", "params.<name>"),
)
"""The fields that an error shows."""

# Of a longer text people give a part.
_TEXTS: Final = frozenset({"name", "description", "customProperties"})

_CLAUSE: Final = re.compile(
    r"""(?!AND\b|OR\b|&&|\|\|)
    (?: (?P<open>\() | (?P<quoted>"(?:[^"\\]|\\.)*")(?:\^[\d.]+)?
    | (?P<urn>urn:li:(?:\\.|[^\s()"\\])+)
    | (?P<text>(?:\\.|(?!!=)[^\s()"\\:=<>])+)(?:"(?P<named>(?:[^"\\]|\\.)*)"(?=:|\s*(?:!=|[<>=])))?
      (?P<operator>:|\s*(?:!=|[<>]=?|=))?
    | (?P<sign>[=<>]+) )""",
    re.VERBOSE | re.DOTALL,
)
_VALUE: Final = re.compile(
    r"""(?P<open>\() | (?P<quoted>"(?:[^"\\]|\\.)*")(?:\^[\d.]+)?
    | (?P<range>[\[{][^\]}]*[\]}])
    | (?P<text>(?:[<>]=?\s+)?(?:\\.|[^\s()"\\])+)""",
    re.VERBOSE | re.DOTALL,
)
_RANGE: Final = re.compile(r"([\[{])\s*(\S+)\s+TO\s+(\S+)\s*([\]}])")
_COMPARED: Final = re.compile(r"(>=|<=|>|<)\s*(.+)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_BOOST: Final = re.compile(r"(?<!\\)\^[\d.]+$")
_PIECE: Final = re.compile(r"\\.|[^\\]", re.DOTALL)
_AND: Final = re.compile(r"AND\b|&&")
_OR: Final = re.compile(r"OR\b|\|\|")
_SIGN: Final = re.compile(r"(NOT\b|[!+-])")
_CLOSE: Final = re.compile(r"\)")
_SPACE: Final = re.compile(r"\s*")


class ReadQuery(NamedTuple):
    """Words that have to occur, and alternatives of criteria of which one has to hold."""

    words: str = MATCH_ALL
    any_of: Alternatives = ()


@dataclass(frozen=True, slots=True)
class _Clauses:
    """The words of a part of a query, and its alternatives, none meaning no condition."""

    words: tuple[str, ...] = ()
    any_of: Alternatives = ((),)

    def conjoin(self, other: "_Clauses") -> "_Clauses":
        return _Clauses((*self.words, *other.words), combine(self.any_of, other.any_of))

    def disjoin(self, other: "_Clauses") -> "_Clauses":
        return _Clauses((), combine((*self.criteria(), *other.criteria()), ((),)))

    def negate(self) -> "_Clauses":
        holding = self.criteria()
        if () in holding:
            raise BadRequestError("query: NOT * matches nothing")
        # Not (a and b) or c: each alternative has to fail, by any one of its criteria.
        failing = (
            tuple((replace(criterion, negated=not criterion.negated),) for criterion in alternative)
            for alternative in holding
        )
        result: Alternatives = ((),)
        for alternatives in failing:
            result = combine(result, alternatives)
        return _Clauses((), result)

    def criteria(self) -> Alternatives:
        """Return the alternatives with the words among their criteria."""
        return combine((tuple(map(_anywhere, self.words)),), self.any_of)


def read_query(text: str, *, strict: bool = False) -> ReadQuery:
    """Return what a query asks for; nothing, or `*`, matches everything.

    In a `strict` query, which somebody typed into a page, the value of a name or text may be a part
    of it. In any other one it is the whole of it, as on a DataHub server.

    Raises:
        UnknownFieldError: it names a field that does not exist.
        BadRequestError: the query is not understood, or compares a number with something else; the
            sentence names it.
    """
    stripped = text.strip()
    if stripped in {"", MATCH_ALL}:
        return ReadQuery()
    if stripped.startswith("urn:li:"):
        return ReadQuery(MATCH_ALL, ((Criterion("urn", (stripped,)),),))
    clauses = _QueryReader(text.lstrip(), strict=strict).whole()
    any_of = () if clauses.any_of == ((),) else clauses.any_of
    words = " ".join(clauses.words)
    return ReadQuery(words or MATCH_ALL, any_of)


def combine(left: Alternatives, right: Alternatives) -> Alternatives:
    """Return the alternatives that hold where one of `left` and one of `right` does.

    Raises:
        BadRequestError: there are more of them than the limit.
    """
    if len(left) * len(right) > SEARCH_CRITERIA:
        raise BadRequestError(f"query: more than {SEARCH_CRITERIA} alternatives")
    return tuple((*ours, *other) for ours, other in product(left, right))


class _QueryReader:
    """Reads a query from left to right."""

    def __init__(self, text: str, *, strict: bool) -> None:
        self._text = text
        self._strict = strict
        self._at = 0
        self._level = 0

    def whole(self) -> _Clauses:
        """Read all of the query."""
        clauses = self._alternatives(None)
        if self._at < len(self._text):
            raise BadRequestError(f"query: a ')' without a '(' {self._position()}")
        return clauses

    def _alternatives(self, field: str | None) -> _Clauses:
        """Read clauses up to a closing parenthesis or the end; `field` holds where none is named.

        AND binds more tightly than OR, and clauses side by side are joined by AND.
        """
        self._level += 1
        if self._level > QUERY_LEVELS:
            raise BadRequestError(f"query: more than {QUERY_LEVELS} levels of parentheses")
        clauses = self._conjunction(field)
        while self._take(_OR):
            clauses = clauses.disjoin(self._conjunction(field))
        self._level -= 1
        return clauses

    def _conjunction(self, field: str | None) -> _Clauses:
        clauses = self._clause(field)
        while self._take(_AND) or not self._is_over():
            clauses = clauses.conjoin(self._clause(field))
        return clauses

    def _is_over(self) -> bool:
        at_end = self._at >= len(self._text) or self._text[self._at] == ")"
        return at_end or _OR.match(self._text, self._at) is not None

    def _clause(self, field: str | None) -> _Clauses:
        negated = False
        while (sign := self._take(_SIGN)) is not None:
            negated ^= sign[1] != "+"
        match = self._expect(_CLAUSE)
        if match["open"]:
            clauses = self._group(field)
        elif match["operator"]:
            name = match["text"] + (match["named"] or "")
            clauses = self._condition(name, match["operator"].strip())
        elif match["quoted"]:
            clauses = self._phrase(field, match["quoted"])
        else:
            clauses = self._term(field, match["urn"] or match["text"] or match["sign"])
        return clauses.negate() if negated else clauses

    def _condition(self, name: str, operator: str) -> _Clauses:
        field = self._field(name)
        if (condition := _COMPARISONS.get(operator)) is not None:
            return self._compared(field, condition)
        clauses = self._value(field)
        return clauses.negate() if operator == "!=" else clauses

    def _field(self, text: str) -> str:
        name = _plain(text)
        field = _field(name)
        if field is None:
            raise UnknownFieldError(_unknown(name))
        return field

    def _value(self, field: str) -> _Clauses:
        match = self._expect(_VALUE)
        if match["open"]:
            return self._group(field)
        if match["range"]:
            return self._range(field, match["range"])
        if match["quoted"]:
            return self._phrase(field, match["quoted"])
        return self._term(field, match["text"])

    def _compared(self, field: str, condition: Condition) -> _Clauses:
        match = self._expect(_VALUE)
        if match["open"] or match["range"]:
            raise BadRequestError("query: a value is expected behind a sign of comparison")
        return _clauses(self._comparison(field, condition, match["quoted"] or match["text"]))

    def _comparison(self, field: str, condition: Condition, text: str) -> Criterion:
        value = _plain(text.strip('"'))
        self._check_number(field, value)
        return Criterion(field, (value,), condition)

    def _range(self, field: str, text: str) -> _Clauses:
        match = _RANGE.fullmatch(text)
        if match is None:
            raise BadRequestError(f"query: expected a range [a TO b], not {text!r}")
        least = Condition.GREATER_THAN_OR_EQUAL_TO if match[1] == "[" else Condition.GREATER_THAN
        most = Condition.LESS_THAN_OR_EQUAL_TO if match[4] == "]" else Condition.LESS_THAN
        ends = ((match[2], least), (match[3], most))
        return _clauses(
            *(self._comparison(field, how, end) for end, how in ends if end != MATCH_ALL)
        )

    def _term(self, field: str | None, text: str) -> _Clauses:
        text = _BOOST.sub("", text)
        if field is None:
            # A star at the end of a word stays: words are read once more, as those of any search.
            return _Clauses(
                tuple(_plain(word) for word in text.split("+") if word.strip(MATCH_ALL))
            )
        if field == "_exists_":
            return _clauses(Criterion(self._field(text), (), Condition.EXISTS))
        if text == MATCH_ALL:
            return _clauses(Criterion(field, (), Condition.EXISTS))
        if (compared := _COMPARED.fullmatch(text)) is not None:
            return _clauses(self._comparison(field, _COMPARISONS[compared[1]], compared[2]))
        return _clauses(*self._pattern(field, text))

    def _phrase(self, field: str | None, quoted: str) -> _Clauses:
        text = _plain(quoted[1:-1])
        if field is None:
            return _Clauses((f'"{text}"',))
        return _clauses(self._equal(field, text))

    def _check_number(self, field: str, value: str) -> None:
        numeric = field in TIMES or field_name(field).name is not None
        if numeric and not _NUMBER.fullmatch(value):
            raise BadRequestError(f"query: {field} is compared with a number, not {value!r}")

    def _equal(self, field: str, *values: str) -> Criterion:
        for value in values:
            self._check_number(field, value)
        if all(value.startswith("urn:li:") for value in values):
            return Criterion(field, values)
        of_part = self._strict and field in _TEXTS
        return Criterion(field, values, Condition.CONTAIN if of_part else Condition.IEQUAL)

    def _pattern(self, field: str, text: str) -> Iterator[Criterion]:
        """Yield what a value with `*` in it asks for: a beginning, an end, what lies between."""
        given = _PIECE.findall(text)
        for piece in given:
            if piece in {"?", "~"}:
                raise BadRequestError(f"query: {piece!r} in {text!r} is not supported; escape it")
        if "*" not in given:
            yield self._equal(field, *_parts(given, ",") or [","])
            return
        pieces = _parts(given, "*", empty=True)
        conditions = [Condition.START_WITH, *[Condition.CONTAIN] * (len(pieces) - 2)]
        for piece, condition in zip(pieces, [*conditions, Condition.END_WITH], strict=True):
            if piece:
                yield Criterion(field, (piece,), condition)

    def _group(self, field: str | None) -> _Clauses:
        clauses = self._alternatives(field)
        if self._take(_CLOSE) is None:
            raise BadRequestError("query: a '(' is not closed")
        return clauses

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            space = _SPACE.match(self._text, match.end())
            self._at = space.end() if space is not None else match.end()
        return match

    def _expect(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = self._take(pattern)
        if match is None:
            quote = self._text.startswith('"', self._at)
            problem = "a quote is not closed" if quote else "syntax error"
            raise BadRequestError(f"query: {problem} {self._position()}")
        return match

    def _position(self) -> str:
        rest = self._text[self._at : self._at + 20]
        return f"at {rest!r}" if rest else "at its end"


def _anywhere(word: str) -> Criterion:
    how = Condition.START_WITH if word.endswith(MATCH_ALL) else Condition.CONTAIN
    return Criterion(ANYWHERE, (word.rstrip(MATCH_ALL),), how)


def _clauses(*criteria: Criterion) -> _Clauses:
    return _Clauses((), (criteria,))


def _plain(text: str) -> str:
    """Return `text` without the backslashes that make special characters plain."""
    return "".join(piece[-1] for piece in _PIECE.findall(text))


def _field(name: str) -> str | None:
    """Return the field that a name or its alias means, None for an unknown one."""
    if name == "_exists_" or field_name(name).name is not None:
        return name
    return _FIELDS.get(name.lower()) or (name if field_name(name).field in SEARCHABLE else None)


def _unknown(name: str) -> str:
    family, _, rest = name.partition(".")
    known = {known.lower(): known for known in (*_ALIASES, *_NUMERIC, *SEARCHABLE)}
    near = difflib.get_close_matches(family.lower(), known, n=1, cutoff=0.6)
    meant = _MEANT.get(family.lower()) or (known[near[0]] if near else "")
    if meant in _NUMERIC:
        meant += f".{rest or '<name>'}"
    number = f"; for a parameter write `params.{name}`, for a metric `metrics.{name}`"
    cure = f"; did you mean `{meant}`?" if meant else f"{number}; known: {', '.join(_USUAL)}"
    return f"query: no field `{name}`{cure} (words with a sign in them need quotes)"


def _parts(pieces: list[str], separator: str, *, empty: bool = False) -> list[str]:
    """Return the plain texts between the separators that no backslash precedes."""
    parts = [""]
    for piece in pieces:
        if piece == separator:
            parts.append("")
        else:
            parts[-1] += piece[-1]
    return [part for part in parts if part or empty]
