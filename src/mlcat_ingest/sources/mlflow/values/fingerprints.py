"""What is remembered of MLflow's records, so that the next pass can tell which of them changed."""

import hashlib
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical
from mlcat_ingest.metadata.reserved import FEATURES_TAG
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    ModelVersion,
    RegisteredModel,
    aliases_of,
)

RUN: Final = "run"
EXPERIMENT: Final = "experiment"
REGISTERED: Final = "registered"
VERSION: Final = "version"

TRASH: Final = "trash"
"""The fingerprint of a run that was in the trash."""
OPEN: Final = "open "
"""The fingerprint of a run that had not ended begins so; its start follows, to sort by."""


def experiment_fingerprint(experiment: Experiment) -> str:
    """Return what a change of means that all runs of the experiment have to be read again."""
    return f"{experiment.lifecycle_stage} {storable(experiment.name)}"


def version_id(version: ModelVersion) -> str:
    """Return what a version is remembered under."""
    return f"{storable(version.name)}/{storable(version.version)}"


def names_fingerprint(versions: Iterable[ModelVersion]) -> str:
    """Return a digest of what the model of a run says about the versions made from the run."""
    return _digest(sorted([version_id(one), one.tags.get(FEATURES_TAG, "")] for one in versions))


def version_fingerprint(version: ModelVersion, model: RegisteredModel | None) -> str:
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


def storable(name: str) -> str:
    """Return a name as text that every database takes."""
    return quote(name, safe=" ", errors="surrogatepass")
