"""The result of a verification: counts, what is left out and why, and the discrepancies."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.core.text import plural, printable

Outcome = Literal["missing", "stale", "dangling", "orphaned"]
Kind = Literal[
    "run",
    "parameter",
    "metric",
    "tag",
    "membership",
    "experiment",
    "registered model",
    "version",
    "alias",
    "stage",
    "dataset",
    "logged model",
    "external model",
    "feature link",
    "subtype",
    "browse path",
    "parent",
    "process instance",
]

OUTCOMES: Final[tuple[Outcome, ...]] = ("missing", "stale", "dangling", "orphaned")
SHOWN: Final = 20
"""Discrepancies of one kind that the text shows."""
KEPT: Final = 1_000
"""Discrepancies of one kind that are kept, and that JSON shows; the others are counted."""

_NOUNS: Final[Mapping[Kind, tuple[str, str]]] = {
    "run": ("run", "runs"),
    "parameter": ("parameter", "parameters"),
    "metric": ("metric", "metrics"),
    "tag": ("tag", "tags"),
    "membership": ("membership", "memberships"),
    "experiment": ("experiment", "experiments"),
    "registered model": ("registered model", "registered models"),
    "version": ("version", "versions"),
    "alias": ("alias", "aliases"),
    "stage": ("stage", "stages"),
    "dataset": ("dataset", "datasets"),
    "logged model": ("logged model", "logged models"),
    "external model": ("external model", "external models"),
    "feature link": ("feature link", "feature links"),
    "subtype": ("subtype", "subtypes"),
    "browse path": ("browse path", "browse paths"),
    "parent": ("parent", "parents"),
    "process instance": ("process instance", "process instances"),
}
_SHOWN_CHARS: Final = 160


class LeftOut(NamedTuple):
    """A reason why something of MLflow is not in the catalog: `<count> <noun> <why>`."""

    noun: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing that the catalog does not hold as MLflow does.

    `field` is the path of the value in the entity, None is no value.
    """

    outcome: Outcome
    kind: Kind
    urn: str
    field: str
    expected: str | None = None
    found: str | None = None

    def line(self) -> str:
        """Return it as one line."""
        expected, found = _text(self.expected), _text(self.found)
        return f"{printable(self.urn)} {printable(self.field)}: expected {expected}, found {found}"

    def data(self) -> dict[str, str | None]:
        """Return it as a JSON object."""
        return {
            "outcome": self.outcome,
            "kind": self.kind,
            "urn": self.urn,
            "field": self.field,
            "expected": _cut(self.expected),
            "found": _cut(self.found),
        }


@dataclass
class VerifyResult:
    """The outcome of a verification; memory is bounded by `KEPT`."""

    recipe: str
    compared: Counter[Kind] = field(default_factory=Counter)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    counts: Counter[tuple[Outcome, Kind]] = field(default_factory=Counter)
    kept: dict[tuple[Outcome, Kind], list[Discrepancy]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searchable: int = 0
    """Live entities that were read by name, and that a search for orphans should find, too."""
    found: int | None = None
    """How many of them it found; None if there was no search."""

    def add(self, discrepancy: Discrepancy) -> None:
        """Count a discrepancy, and keep it where there is room."""
        place = discrepancy.outcome, discrepancy.kind
        self.counts[place] += 1
        kept = self.kept.setdefault(place, [])
        if len(kept) < KEPT:
            kept.append(discrepancy)

    def leave_out(self, noun: str, why: str = "", count: int = 1) -> None:
        """Count something that is not in the catalog on purpose."""
        if count:
            self.left_out[LeftOut(noun, why)] += count

    def total(self, outcome: Outcome) -> int:
        """Return how many discrepancies came out so."""
        return sum(count for place, count in self.counts.items() if place[0] == outcome)

    @property
    def index_is_behind(self) -> bool:
        """True if a search does not find all that the catalog holds: there may be more orphans."""
        return self.found is not None and self.found < self.searchable

    @property
    def discrepancies(self) -> int:
        """How many there are; none if the catalog holds everything as MLflow does."""
        return sum(self.counts.values())

    def lines(self) -> Iterator[str]:
        """Yield the summary as the first line, then notes and the first discrepancies by kind."""
        yield self._summary()
        yield from (f"note: {note}" for note in self.notes)
        for outcome in OUTCOMES:
            for kind in _NOUNS:
                yield from self._lines_of(outcome, kind)

    def _summary(self) -> str:
        compared = [plural(self.compared["run"], *_NOUNS["run"])]
        compared += [
            plural(self.compared[kind], *nouns)
            for kind, nouns in _NOUNS.items()
            if kind != "run" and self.compared[kind]
        ]
        counts = ", ".join(map(self._count, OUTCOMES))
        text = f"{', '.join(compared)}: {counts}"
        if self.left_out:
            text = f"{text}; left out: {', '.join(self._left_out_texts())}"
        return text

    def _count(self, outcome: Outcome) -> str:
        if outcome == "orphaned" and self.index_is_behind:
            lag = f"{self.found:,} of {self.searchable:,}"
            return f"orphaned: not known, the search index is behind: {lag}"
        return f"{self.total(outcome):,} {outcome}"

    def _left_out_texts(self) -> Iterator[str]:
        for reason, count in sorted(self.left_out.items()):
            yield f"{plural(count, reason.noun)} {reason.why}".rstrip()

    def _lines_of(self, outcome: Outcome, kind: Kind) -> Iterator[str]:
        kept = self.kept.get((outcome, kind))
        if not kept:
            return
        count = self.counts[outcome, kind]
        yield f"{outcome}: {plural(count, *_NOUNS[kind])}"
        yield from (f"  {one.line()}" for one in kept[:SHOWN])
        if count > SHOWN:
            yield f"  … and {count - SHOWN:,} more, see --json"

    def data(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        kept = [one for every in self.kept.values() for one in every]
        return {
            "recipe": self.recipe,
            "compared": dict(self.compared),
            **{outcome: self.total(outcome) for outcome in OUTCOMES},
            "index_is_behind": self.index_is_behind,
            "left_out": [
                {"count": count, "what": f"{reason.noun} {reason.why}".rstrip()}
                for reason, count in sorted(self.left_out.items())
            ],
            "notes": self.notes,
            "discrepancies": [one.data() for one in kept],
            "discrepancies_not_shown": self.discrepancies - len(kept),
        }


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _text(text: str | None) -> str:
    return "nothing" if text is None else printable(f"{_cut(text)}" if text else "''")
