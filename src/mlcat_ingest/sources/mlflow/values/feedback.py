"""Feedback on the traces of evaluation runs, and the means that become metrics of these runs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mlcat_ingest.sources.mlflow.values.records import EVALUATION_TYPE, RUN_TYPE_TAG, Metric, Run

SOURCE_RUN: Final = "mlflow.sourceRun"
"""Metadata of a trace: the run that it was recorded in."""
ASSESSED_IN: Final = "mlflow.assessment.sourceRunId"
"""Metadata of an assessment: the evaluation run that made it."""

_RATINGS: Final = {"yes": 1.0, "no": 0.0}


class JudgedTrace(NamedTuple):
    """A trace that a run recorded: name and value of each feedback on it that counts for the run.

    Feedback counts that is not overridden, and was not made by the evaluation of another run.
    """

    trace_id: str
    run_id: str
    feedback: tuple[tuple[str, Any], ...] = ()


class FeedbackMean(NamedTuple):
    """The mean of the feedback of one name on the traces of a run, and the number of its values."""

    name: str
    mean: float
    values: int

    @property
    def metric(self) -> Metric:
        """The metric that it becomes, called as `genai.evaluate` calls its own."""
        return Metric(f"{self.name}/mean", self.mean)


RunFeedback = Mapping[str, Sequence[FeedbackMean]]
"""The means by run id, sorted by name."""


def evaluation_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs of `genai.evaluate`."""
    return [one for one in runs if one.tags.get(RUN_TYPE_TAG) == EVALUATION_TYPE]


def means_beside(run: Run, means: Iterable[FeedbackMean]) -> list[FeedbackMean]:
    """Return the means under whose names the run has logged no metric itself."""
    own = {metric.key for metric in run.metrics}
    return [one for one in means if one.metric.key not in own]


def means_of(values: Iterable[tuple[str, str, Any]]) -> RunFeedback:
    """Return the means of feedback that is given as run id, name and value.

    Source: `compute_aggregated_metrics` of MLflow 3.17: numbers, booleans, and the texts yes and
    no in any case; all other values are left out.
    """
    numbers: dict[tuple[str, str], Counter[float]] = {}
    for run_id, name, value in values:
        number = _number(value)
        if number is not None:
            numbers.setdefault((run_id, name), Counter())[number] += 1
    means: dict[str, list[FeedbackMean]] = {}
    for (run_id, name), found in sorted(numbers.items()):
        mean = _mean(found)
        if mean is not None:
            means.setdefault(run_id, []).append(FeedbackMean(name, mean, found.total()))
    return means


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return _RATINGS.get(value.lower())
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _mean(values: Counter[float]) -> float | None:
    """Return a mean that does not depend on the order of the values, None where it overflows."""
    try:
        return math.fsum(values.elements()) / values.total()
    except OverflowError:
        return None
