"""What came of a run that is after a few runs of MLflow by their ids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlcat_ingest.pipeline.report.report import Report


@dataclass(frozen=True, slots=True)
class Brought:
    """What came of runs that were asked for by their ids.

    No source came upon the `unknown` ones. Something of the `refused` ones did not arrive.
    """

    report: Report
    unknown: Sequence[str] = ()
    refused: frozenset[str] = frozenset()


def refused_among(run_ids: Sequence[str], letters: Iterable[str]) -> frozenset[str]:
    """Return which of the runs dead letters are about, told by the ids in their names.

    All are returned where one says nothing of that, such as that of an experiment: it may be of
    any.
    """
    found: set[str] = set()
    for letter in letters:
        about = [one for one in run_ids if one in letter]
        if not about:
            return frozenset(run_ids)
        found.update(about)
    return frozenset(found)
