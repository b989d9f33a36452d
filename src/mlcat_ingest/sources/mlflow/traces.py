"""What is remembered of MLflow's records, so that the next pass can tell which of them changed."""

import hashlib
from collections.abc import Iterable, Mapping
from importlib.metadata import version as installed
from typing import Final
from urllib.parse import quote

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical, content_hash
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.reserved import FEATURES_TAG
from mlcat_ingest.recipe.fields import content_of
from mlcat_ingest.recipe.secrets import comparable
from mlcat_ingest.sources.base import PROGRAM, Part, PartState, Trace
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.joined import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    Scope,
)
from mlcat_ingest.sources.mlflow.records import (
    Experiment,
    ModelVersion,
    RegisteredModel,
    aliases_of,
)
from mlcat_ingest.sources.mlflow.select import UNENDED

RUN: Final = "run"
EXPERIMENT: Final = "experiment"
REGISTERED: Final = "registered"
VERSION: Final = "version"

TRASH: Final = "trash"
"""The mark of a run that was in the trash."""
OPEN: Final = "open "
"""The mark of a run that had not ended begins so; the time of its start follows, to sort by."""


def part_of(config: MlflowConfig, scope: Scope) -> Part:
    """Return one workspace as a part to be remembered.

    The program's version is among its settings, since the mapping is part of the program.
    """
    naming = scope.naming
    settings = comparable(content_of(config))
    return Part(
        key=scope.source_key,
        instance=naming.instance or "",
        identity=_identity(naming),
        settings=content_hash([settings, config.owners.map_digest(), installed(PROGRAM)]),
    )


def _identity(naming: Naming) -> Mapping[str, str]:
    return {
        RUN: naming.model("0").urn,
        EXPERIMENT: naming.group("0").urn,
        REGISTERED: naming.registered_group("0").urn,
        VERSION: naming.version("0", "0").urn,
    }


def trace_of(record: JoinedRecord, part: PartState) -> Trace | None:
    """Return what to remember of `record`, None for one that nothing tells apart."""
    match record:
        case JoinedRun():
            return _run(record, part) if record.run.run_id else None
        case JoinedExperiment():
            found = record.experiment
            if not found.experiment_id:
                return None
            return Trace(part, EXPERIMENT, found.experiment_id, mark=experiment_mark(found))
        case JoinedRegisteredModel():
            return Trace(part, REGISTERED, _spelled(record.model.name))
        case JoinedVersion():
            joined = digest_of(record.version, record.registered)
            return Trace(part, VERSION, version_id(record.version), joined=joined)


def _run(record: JoinedRun, part: PartState) -> Trace:
    run, mark = record.run, ""
    if record.is_removed:
        mark = TRASH
    elif run.status in UNENDED and not record.abandoned:
        mark = f"{OPEN}{run.start_time_ms or 0:020d}"
    # Versions that name no run are found by their logged models only where these are read.
    named = [one for one in record.versions if one.run_id]
    joined = digest_of_names(named) if named else ""
    return Trace(part, RUN, run.run_id, None, mark, joined)


def experiment_mark(experiment: Experiment) -> str:
    """Return what a change of means that all runs of the experiment have to be read again."""
    return f"{experiment.lifecycle_stage} {_spelled(experiment.name)}"


def version_id(version: ModelVersion) -> str:
    """Return what a version is remembered under."""
    return f"{_spelled(version.name)}/{_spelled(version.version)}"


def digest_of_names(versions: Iterable[ModelVersion]) -> str:
    """Return a digest of what the model of a run says about the versions made from the run."""
    return _digest(sorted([version_id(one), one.tags.get(FEATURES_TAG, "")] for one in versions))


def digest_of(version: ModelVersion, model: RegisteredModel | None) -> str:
    """Return a digest of what a version and its registered model say about the version's model."""
    return _digest(
        [
            *(version.name, version.version, version.run_id, version.source, version.model_id),
            *(version.stage, version.status, version.description, version.user_id),
            *(version.created_at_ms, version.last_updated_at_ms),
            *(aliases_of(version, model), dict(version.tags)),
            None if model is None else model.description,
        ]
    )


def _digest(facts: object) -> str:
    try:
        text = canonical(facts)
    except CodecError:
        text = repr(facts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()[:16]


def _spelled(name: str) -> str:
    """Return a name as text that every database takes."""
    return quote(name, safe=" ", errors="surrogatepass")
