"""The job that trained a model, from a tag that an orchestrator put on the run."""

from collections.abc import Mapping
from typing import Final

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.sources.mlflow.mapping.text import Fitter

_KINDS: Final = frozenset({"dataJob", "dataProcessInstance"})


def training_jobs(tags: Mapping[str, str], fitter: Fitter) -> list[str] | None:
    """Return the job that a run's tags name, None for none; what is no job is noted."""
    given = tags.get(TRAINING_JOB_TAG)
    if not given:
        return None
    urn = given.strip()
    try:
        check(urn)
    except InvalidUrnError as error:
        fitter.note("training_job_invalid", str(error))
        return None
    if entity_type_of(urn) in _KINDS:
        return [urn]
    fitter.note("training_job_invalid", f"{urn} is no job")
    return None
