"""Feedback on the traces that runs recorded, from one statement."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import func, literal, or_, select, true

from mlcat_ingest.sources.mlflow.read.database.access import IDS, Read
from mlcat_ingest.sources.mlflow.read.database.tables import (
    ASSESSMENTS,
    TRACE_METADATA,
    TRACES,
    is_one_of,
)
from mlcat_ingest.sources.mlflow.values.feedback import ASSESSED_IN, SOURCE_RUN
from mlcat_ingest.sources.mlflow.values.records import Run, json_or_none

_VALUE_CHARS: Final = 400
"""Characters of the longest number in JSON; longer values are texts, lists and objects."""

_JUDGED: Final = ASSESSMENTS.c
# MLflow asks for the run of an assessment by such a pattern, too.
_ANY_RUN: Final = literal(f'"{ASSESSED_IN}": "')
_THIS_RUN: Final = _ANY_RUN.concat(TRACE_METADATA.c.value).concat('"')
# Not grouped: a database may take names that differ in case for one.
_FEEDBACK: Final = (
    select(TRACE_METADATA.c.value, _JUDGED.name, _JUDGED.value)
    .join_from(TRACES, TRACE_METADATA, TRACE_METADATA.c.request_id == TRACES.c.request_id)
    .join(ASSESSMENTS, _JUDGED.trace_id == TRACES.c.request_id)
    .where(
        TRACE_METADATA.c.key == SOURCE_RUN,
        TRACE_METADATA.c.value.in_(IDS),
        _JUDGED.assessment_type == "feedback",
        _JUDGED.valid.is_(true()),
        func.length(_JUDGED.value) <= _VALUE_CHARS,
        or_(
            _JUDGED.assessment_metadata.is_(None),
            _JUDGED.assessment_metadata.not_like(literal("%").concat(_ANY_RUN).concat("%")),
            _JUDGED.assessment_metadata.like(literal("%").concat(_THIS_RUN).concat("%")),
        ),
    )
)


def load_feedback(read: Read, runs: Sequence[Run]) -> Iterator[tuple[str, str, Any]]:
    """Yield run id, name and value of the feedback on the traces that `runs` recorded.

    Cost: one statement, which walks over the traces of the runs' experiments.
    """
    experiments = sorted({run.experiment_id for run in runs})
    statement = _FEEDBACK.where(is_one_of(TRACES.c.experiment_id, experiments))
    for run_id, name, value in read.of([run.run_id for run in runs], statement):
        yield run_id, name, json_or_none(value)
