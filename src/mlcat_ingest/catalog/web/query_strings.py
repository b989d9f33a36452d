"""Query strings of searches, read into words and criteria.

A query string has the syntax of Elasticsearch's `query_string`: words, `field:value`,
`field:"a phrase"`, `field:prefix*`, `field:*suffix`, `field:>=5`, `field:[a TO b]`,
`_exists_:field`, `field:(a OR b)`, parentheses, AND, OR, NOT, `+`, `-`, and backslashes before
special characters. Boosts are passed over. Words under OR or NOT are looked for in every text.
Source: the query of DataHub's searches behind `/q `.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import QUERY_LEVELS, SEARCH_CRITERIA
from mlcat_ingest.catalog.search.fields import ANYWHERE
from mlcat_ingest.catalog.search.query import ALIASES, COMPARISONS
from mlcat_ingest.catalog.search.request import MATCH_ALL, Alternatives, Condition, Criterion

_CLAUSE: Final = re.compile(
    r"""(?!AND\b|OR\b|&&|\|\|)
    (?: (?P<open>\() | (?P<quoted>"(?:[^"\\]|\\.)*")(?:\^[\d.]+)?
    | (?P<text>(?:\\.|[^\s()"\\:])+)(?P<colon>:)? )""",
    re.VERBOSE | re.DOTALL,
)
_VALUE: Final = re.compile(
    r"""(?P<open>\() | (?P<quoted>"(?:[^"\\]|\\.)*")(?:\^[\d.]+)?
    | (?P<range>[\[{][^\]}]*[\]}]) | (?P<text>(?:\\.|[^\s()"\\])+)""",
    re.VERBOSE | re.DOTALL,
)
_RANGE: Final = re.compile(r"([\[{])\s*(\S+)\s+TO\s+(\S+)\s*([\]}])")
_COMPARED: Final = re.compile(r"(>=|<=|>|<)(.+)", re.DOTALL)
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


def read_query(text: str) -> ReadQuery:
    """Return what a query asks for; nothing, or `*`, matches everything.

    Raises:
        BadRequestError: the query is not understood, or asks for something that this service does
            not have; the sentence names it.
    """
    stripped = text.strip()
    if stripped in {"", MATCH_ALL}:
        return ReadQuery()
    if stripped.startswith("urn:li:"):
        return ReadQuery(MATCH_ALL, ((Criterion("urn", (stripped,)),),))
    clauses = _QueryReader(text.lstrip()).whole()
    any_of = () if clauses.any_of == ((),) else clauses.any_of
    words = " ".join(word.rstrip(MATCH_ALL) for word in clauses.words)
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

    def __init__(self, text: str) -> None:
        self._text = text
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
        elif match["colon"]:
            name = _plain(match["text"])
            clauses = self._value(ALIASES.get(name, name))
        elif match["quoted"]:
            clauses = _phrase(field, match["quoted"])
        else:
            clauses = _term(field, match["text"])
        return clauses.negate() if negated else clauses

    def _value(self, field: str) -> _Clauses:
        match = self._expect(_VALUE)
        if match["open"]:
            return self._group(field)
        if match["range"]:
            return _range(field, match["range"])
        if match["quoted"]:
            return _phrase(field, match["quoted"])
        return _term(field, match["text"])

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
            raise BadRequestError(f"query: syntax error {self._position()}")
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


def _phrase(field: str | None, quoted: str) -> _Clauses:
    text = _plain(quoted[1:-1])
    return _Clauses((text,)) if field is None else _clauses(Criterion(field, (text,)))


def _range(field: str, text: str) -> _Clauses:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadRequestError(f"query: expected a range [a TO b], not {text!r}")
    least = Condition.GREATER_THAN_OR_EQUAL_TO if match[1] == "[" else Condition.GREATER_THAN
    most = Condition.LESS_THAN_OR_EQUAL_TO if match[4] == "]" else Condition.LESS_THAN
    ends = ((match[2], least), (match[3], most))
    return _clauses(
        *(Criterion(field, (_plain(end),), how) for end, how in ends if end != MATCH_ALL)
    )


def _term(field: str | None, text: str) -> _Clauses:
    text = _BOOST.sub("", text)
    if field is None:
        # The last word of a search is a prefix anyway.
        return _Clauses(tuple(_plain(word) for word in text.split("+") if word.strip(MATCH_ALL)))
    if field == "_exists_":
        return _clauses(Criterion(_plain(text), (), Condition.EXISTS))
    if text == MATCH_ALL:
        return _clauses(Criterion(field, (), Condition.EXISTS))
    compared = _COMPARED.fullmatch(text)
    if compared is not None:
        return _clauses(Criterion(field, (_plain(compared[2]),), COMPARISONS[compared[1]]))
    return _clauses(*_pattern(field, text))


def _pattern(field: str, text: str) -> Iterator[Criterion]:
    """Yield what a value with `*` in it asks for: a beginning, an end, and what lies between."""
    pieces = [""]
    for piece in _PIECE.findall(text):
        if piece == "*":
            pieces.append("")
        elif piece in {"?", "~"}:
            raise BadRequestError(f"query: {piece!r} in {text!r} is not supported; escape it")
        else:
            pieces[-1] += piece[-1]
    if len(pieces) == 1:
        yield Criterion(field, (pieces[0],))
        return
    conditions = [Condition.START_WITH, *[Condition.CONTAIN] * (len(pieces) - 2)]
    for piece, condition in zip(pieces, [*conditions, Condition.END_WITH], strict=True):
        if piece:
            yield Criterion(field, (piece,), condition)
