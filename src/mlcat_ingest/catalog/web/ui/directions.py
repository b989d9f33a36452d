"""Which values of a metric are the better ones: what says so, or else nothing.

In this order: the reader, the tag of the experiment, Optuna's tags of the runs, the metrics that
libraries write by their whole names (`metric_names.csv`), and the last words of the name, joined
(`metric_words.csv`).
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from mlcat_ingest.metadata.reserved import DIRECTIONS

METRICS: Final = "metrics."

_NEGATING: Final = frozenset(["neg", "negative", "minus", "inverse"])
_OTHER_QUANTITY: Final = frozenset(
    [
        *("std", "stddev", "sd", "var", "variance", "delta", "diff", "gap", "drop"),
        *("target", "to", "until"),
    ]
)
"""Words before a metric that make another quantity of it, of which nothing is known."""

_PART: Final = re.compile(
    """train(ing)?|trn|val(id(ation)?)?|test(ing)?|eval(uation)?|dev|holdout|oof|oos|cv|fold|split
    |best|mean|avg|average|median|final|last|total|sum|max|min|overall|epoch|step|batch|iter
    |weighted|macro|micro|samples|at|k|in|out|of|sample|score|p?[0-9]+|v[0-9]+|one
    |s|secs?|seconds|[mnu]s|pct|percent""",
    re.VERBOSE,
)
"""Words that say where, when and how a metric was measured, and not which one it is."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_SETTINGS: Final = re.compile(r":\w+=.*")
_OPTUNA: Final = ("direction", "directions", "optuna.study_direction")
TRIAL_NUMBER: Final = "numbers"
"""The tag of a trial that MLflow's own storage for Optuna wrote; its study is its parent."""

_OPTUNA_VALUE: Final = re.compile(r"metrics\.value(?:_(\d{1,9}))?")


class Better(NamedTuple):
    """Whether the smaller of two values of a metric is the better one, and what says so."""

    less: bool
    evidence: str

    def __str__(self) -> str:
        """Return which values are better, and why."""
        return f"{'less' if self.less else 'more'} is better, by {self.evidence}"

    def sort(self, column: str) -> str:
        """Return the order of a list with the best value of a column first."""
        return column if self.less else f"-{column}"


class Directions:
    """What is known of the metrics of one page."""

    def __init__(
        self,
        chosen: Iterable[str] = (),
        groups: Iterable[Mapping[str, str]] = (),
        runs: Iterable[tuple[Iterable[str], Mapping[str, str]]] = (),
    ) -> None:
        """Take what says something.

        Args:
            chosen: what the reader chose: the order with the best value of a metric first.
            groups: the custom properties of the experiments.
            runs: for each run its metrics, and its custom properties or those of its study.
        """
        self._sources = (
            ("your choice", [{one.removeprefix("-"): not one.startswith("-")} for one in chosen]),
            ("the experiment's tag", [dict(_tagged(group)) for group in groups]),
            ("Optuna's direction", [dict(_studied(*run)) for run in runs]),
        )

    def of(self, column: str) -> Better | None:
        """Return the direction of a metric, such as `metrics.auc`; None where nothing says it."""
        for evidence, stated in self._sources:
            found = {directions[column] for directions in stated if column in directions}
            if found:
                return Better(found.pop(), evidence) if len(found) == 1 else None
        return _by_name(column.removeprefix(METRICS)) if column.startswith(METRICS) else None


def _tagged(group: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield what the tag of an experiment says: `wer=minimize, share=maximize`."""
    for entry in group.get(DIRECTIONS, "").split(","):
        name, _, direction = entry.rpartition("=")
        if (less := _is_less(direction)) is not None:
            yield f"{METRICS}{name.strip()}", less


def _is_less(direction: str) -> bool | None:
    word = direction.strip().lower().removeprefix("studydirection.")
    return {"min": True, "max": False}.get(word.removesuffix("imize"))


def _studied(metrics: Iterable[str], custom: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield the directions of the values of an Optuna trial, whose names its tags do not have."""
    text = next((custom[key] for key in _OPTUNA if custom.get(key)), "")
    words = [_is_less(word) for word in re.sub(r"[\[\]'\"\s]", "", text).split(",")]
    names = [name for name in metrics if name.startswith(METRICS)]
    values = {
        name: int(found[1] or 0) for name in names if (found := _OPTUNA_VALUE.fullmatch(name))
    }
    if not values and len(set(words)) == 1 and len(names) == len(words):
        values = dict.fromkeys(names, 0)
    for name, at in values.items():
        if at < len(words) and (less := words[at]) is not None:
            yield name, less


@cache
def _table() -> Mapping[str, Better]:
    found: dict[str, Better] = {}
    for row in _rows("metric_names.csv"):
        less, library = row["better"] == "less", row["library"]
        found[row["name"]] = Better(less, f"{library}'s metric")
        alike = "".join(_core(row["name"]))
        found.setdefault(alike, Better(less, f"its name, as in {library}"))
    return found


@cache
def _words() -> Mapping[str, Better]:
    rows = _rows("metric_words.csv")
    return {row["word"]: Better(row["better"] == "less", "its name") for row in rows}


def _rows(name: str) -> Iterable[Mapping[str, str]]:
    text = (files("mlcat_ingest.catalog.web.ui") / name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def _core(name: str) -> list[str]:
    """Return the words of a name that say which metric it is."""
    words = [word.lower() for word in _WORD.findall(_SETTINGS.sub("", name))]
    core = [word for word in words if not _PART.fullmatch(word)]
    return core or [word for word in words if word == "score"]


def _by_name(name: str) -> Better | None:
    if name in _table():
        return _table()[name]
    core = _core(name)
    if core[:1] == ["rank"] and "".join(core) not in _words():
        return Better(True, "its name")
    for at in range(len(core)):
        before, last = core[:at], "".join(core[at:])
        direction = _of_words(last, whole=_NEGATING.issuperset(before))
        if direction is not None:
            if not _OTHER_QUANTITY.isdisjoint(before):
                return None
            turned = sum(word in _NEGATING for word in before) % 2 == 1
            return direction._replace(less=direction.less is not turned)
    return None


def _of_words(last: str, *, whole: bool) -> Better | None:
    for word in (last, last.rstrip("0123456789")):
        if whole and word in _table():
            return _table()[word]
        if word in _words():
            return _words()[word]
    return None
