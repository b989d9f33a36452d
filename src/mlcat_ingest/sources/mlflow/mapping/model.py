"""A run becomes an mlModel in its experiment's group."""

from typing import Any, Final

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS, OWNERSHIP
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES, SOURCE_CODE
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.sources.mlflow.mapping.aspects import (
    NO_TAGS,
    common_properties,
    first_aspects,
)
from mlcat_ingest.sources.mlflow.mapping.datasets import NO_DATASETS, dataset_facts
from mlcat_ingest.sources.mlflow.mapping.evidence import run_evidence, with_evidence
from mlcat_ingest.sources.mlflow.mapping.jobs import training_jobs
from mlcat_ingest.sources.mlflow.mapping.limits import sized
from mlcat_ingest.sources.mlflow.mapping.logged import put_history, put_logged_models
from mlcat_ingest.sources.mlflow.mapping.metrics import training_metrics
from mlcat_ingest.sources.mlflow.mapping.params import hyper_params
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.source_code import NO_SOURCE_CODE, source_code
from mlcat_ingest.sources.mlflow.mapping.text import MAX_INT64, Fitter, compact_json
from mlcat_ingest.sources.mlflow.mapping.version import names_of
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.names import (
    COMMIT_TAGS,
    HISTORY_TAG,
    NAME_TAG,
    NOTE_TAG,
    PARENT_TAG,
    USER_TAG,
    OwnKey,
)
from mlcat_ingest.sources.mlflow.values.records import Run

_SAID_ELSEWHERE: Final = frozenset({NOTE_TAG, HISTORY_TAG})
_SAID_ELSEWHERE_AND_NAME: Final = frozenset({NOTE_TAG, HISTORY_TAG, NAME_TAG})
_SHORT_ID: Final = 8


def map_run(record: JoinedRun) -> list[Entity]:
    """Return the model that a run is.

    An ordinary run has `mlModelProperties`, `ownership` and, where a commit is known, `sourceCode`
    to be written; the others are empty then, and `status` only matters where the catalog holds the
    model as removed. Properties come last.

    Raises:
        RecordError: the run has no id.
        InvalidUrnError: the id cannot be part of a URN.
    """
    scope, run = record.scope, record.run
    if not run.run_id:
        raise RecordError("a run without an id", record_ref=f"experiment {run.experiment_id}")
    fitter = Fitter(scope.limits)
    if record.files.unread:
        fitter.note("feature_file_unread", record.files.unread)
    name = scope.naming.model(run.run_id)
    # MLflow deprecated `user_id`; clients that run as a service set the tag to the person.
    user = scope.owners.urn(run.tags.get(USER_TAG)) or scope.owners.urn(run.user_id)
    datasets = NO_DATASETS
    if run.datasets:
        datasets = dataset_facts(run.datasets, scope.datasets, scope.naming.env, fitter)
    aspects = _side_aspects(record, user)
    aspects.update(datasets.aspects)
    custom = common_properties(scope, name, fitter)
    _put_properties(custom, record, datasets.summary)
    aspects[ML_MODEL_PROPERTIES] = _model(record, custom, user)
    model = Entity(name.urn, aspects, notes=tuple(fitter.notes))
    return [with_evidence(model, run_evidence(record), scope)]


def _side_aspects(record: JoinedRun, user: str | None) -> dict[str, Aspect]:
    tags = record.run.tags
    aspects = first_aspects(record.scope, removed=record.is_removed)
    aspects[OWNERSHIP] = record.scope.owners.ownership(user)
    committed = COMMIT_TAGS[0] in tags or COMMIT_TAGS[1] in tags
    aspects[SOURCE_CODE] = source_code(tags) if committed else NO_SOURCE_CODE
    aspects[GLOBAL_TAGS] = NO_TAGS
    return aspects


def _put_properties(custom: PropertiesBuilder, record: JoinedRun, datasets: str) -> None:
    run = record.run
    _put_run_facts(custom, record)
    put_logged_models(custom, run, record.models)
    put_history(custom, run.tags)
    custom.put_own(OwnKey.DATASETS, datasets)
    if record.versions:
        custom.put_own(OwnKey.VERSIONS, compact_json(names_of(record.versions)))
    # The run's name is a tag too; the tag is worth keeping only where it says something else.
    same = run.name is None or run.name == run.tags.get(NAME_TAG)
    without = _SAID_ELSEWHERE_AND_NAME if same else _SAID_ELSEWHERE
    custom.put_tags(run.tags, without=without)


def _model(record: JoinedRun, custom: PropertiesBuilder, user: str | None) -> Aspect:
    scope, run, fitter = record.scope, record.run, custom.fitter
    result: dict[str, Any] = {
        "customProperties": custom.values,
        "name": fitter.text(_name(record), "name"),
    }
    _put_scalars(result, record, user, fitter)
    result["hyperParams"] = hyper_params(run.params, custom)
    result["trainingMetrics"] = training_metrics(
        run, record.models, custom, system_metrics=scope.options.system_metrics
    )
    if record.experiment is not None:
        result["groups"] = [scope.experiment_group(record.experiment).urn]
    else:
        # Without its experiment the list would be incomplete, and an incomplete list removes.
        fitter.note("experiment_unknown", run.experiment_id)
    return sized(result, fitter)


def _put_run_facts(custom: PropertiesBuilder, record: JoinedRun) -> None:
    run = record.run
    facts = {
        OwnKey.RUN_ID: run.run_id,
        OwnKey.EXPERIMENT_ID: run.experiment_id,
        OwnKey.STATUS: run.status,
        OwnKey.LIFECYCLE_STAGE: None if run.lifecycle_stage == "active" else run.lifecycle_stage,
        OwnKey.ARTIFACT_URI: run.artifact_uri,
        OwnKey.DURATION_MS: _duration(run),
        OwnKey.PARENT_RUN_ID: run.tags.get(PARENT_TAG),
        OwnKey.CHILDREN: None if record.children is None else str(record.children),
        OwnKey.ABANDONED: "true" if record.abandoned else None,
    }
    for key, value in facts.items():
        custom.put_own(key, value)


def _duration(run: Run) -> str | None:
    if run.start_time_ms is None or run.end_time_ms is None:
        return None
    duration = run.end_time_ms - run.start_time_ms
    return str(duration) if abs(duration) <= MAX_INT64 else None


def _name(record: JoinedRun) -> str:
    run = record.run
    name = run.name or run.tags.get(NAME_TAG)
    if not name:
        experiment = record.experiment
        place = (experiment.name if experiment else "") or run.experiment_id or "run"
        name = f"{place} {run.run_id[:_SHORT_ID]}"
    return name


def _put_scalars(
    result: dict[str, Any], record: JoinedRun, user: str | None, fitter: Fitter
) -> None:
    run = record.run
    result["description"] = fitter.description(run.tags.get(NOTE_TAG))
    created = fitter.time_stamp(run.start_time_ms, "start time", user)
    result["date"] = None if created is None else created["time"]
    result["created"] = created
    ended = run.start_time_ms if run.end_time_ms is None else run.end_time_ms
    result["lastModified"] = fitter.time_stamp(ended, "end time")
    result["externalUrl"] = record.scope.links.run(run.experiment_id, run.run_id)
    result["type"] = fitter.optional(_type(record), "type")
    result["trainingJobs"] = training_jobs(run.tags, fitter)


def _type(record: JoinedRun) -> str | None:
    """Return the estimator that autologging named, else the type of the first logged model."""
    tags = record.run.tags
    kind = tags.get("estimator_name") or tags.get("estimator_class")
    if kind or not record.models:
        return kind
    models = (record.models.get(output.model_id) for output in record.run.model_outputs)
    return next((m.model_type for m in models if m is not None and m.model_type), None)
