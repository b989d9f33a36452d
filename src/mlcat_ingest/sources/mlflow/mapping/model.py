"""A run becomes an mlModel in its experiment's group."""

from typing import Any, Final, NamedTuple

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.sources.mlflow.joined import JoinedRun
from mlcat_ingest.sources.mlflow.mapping.aspects import (
    NO_TAGS,
    common_properties,
    display_name,
    first_aspects,
    time_stamp,
)
from mlcat_ingest.sources.mlflow.mapping.datasets import NO_DATASETS, DatasetFacts, dataset_facts
from mlcat_ingest.sources.mlflow.mapping.evidence import run_evidence, with_evidence
from mlcat_ingest.sources.mlflow.mapping.jobs import training_jobs
from mlcat_ingest.sources.mlflow.mapping.limits import sized
from mlcat_ingest.sources.mlflow.mapping.logged import put_history, put_logged_models
from mlcat_ingest.sources.mlflow.mapping.metrics import training_metrics
from mlcat_ingest.sources.mlflow.mapping.params import hyper_params
from mlcat_ingest.sources.mlflow.mapping.properties import put_own, put_tags
from mlcat_ingest.sources.mlflow.mapping.source_code import NO_SOURCE_CODE, source_code
from mlcat_ingest.sources.mlflow.mapping.text import MAX_INT64, compact_json, fit_or_none
from mlcat_ingest.sources.mlflow.mapping.version import names_of
from mlcat_ingest.sources.mlflow.names import (
    COMMIT_TAGS,
    HISTORY_TAG,
    NAME_TAG,
    NOTE_TAG,
    PARENT_TAG,
    USER_TAG,
    OwnKey,
)
from mlcat_ingest.sources.mlflow.records import Run

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
    notes: list[Note] = []
    if record.files.unread:
        notes.append(Note("feature_file_unread", record.files.unread))
    name = scope.naming.model(run.run_id)
    # MLflow deprecated `user_id`; clients that run as a service set the tag to the person.
    user = scope.owners.urn(run.tags.get(USER_TAG)) or scope.owners.urn(run.user_id)
    facts = _Facts(
        user=user,
        datasets=dataset_facts(run.datasets, scope.datasets, scope.naming.env, notes)
        if run.datasets
        else NO_DATASETS,
        notes=notes,
    )
    aspects = _side_aspects(record, facts)
    custom = common_properties(scope, name, notes)
    _put_properties(custom, record, facts)
    aspects["mlModelProperties"] = _model(record, custom, facts)
    model = Entity(name.urn, aspects, notes=tuple(notes))
    return [with_evidence(model, run_evidence(record), scope)]


class _Facts(NamedTuple):
    """What was found out about a run before its properties are put together."""

    user: str | None
    datasets: DatasetFacts
    notes: list[Note]


def _side_aspects(record: JoinedRun, facts: _Facts) -> dict[str, Aspect]:
    tags = record.run.tags
    aspects = first_aspects(record.scope, removed=record.is_removed)
    user = facts.user
    aspects["ownership"] = record.scope.owners.ownership(user)
    committed = COMMIT_TAGS[0] in tags or COMMIT_TAGS[1] in tags
    aspects["sourceCode"] = source_code(tags) if committed else NO_SOURCE_CODE
    aspects["globalTags"] = NO_TAGS
    aspects.update(facts.datasets.aspects)
    return aspects


def _put_properties(custom: dict[str, str], record: JoinedRun, facts: _Facts) -> None:
    run, limits, notes = record.run, record.scope.limits, facts.notes
    _put_run_facts(custom, record, notes)
    put_logged_models(custom, run, record.models, limits, notes)
    put_history(custom, run.tags, limits, notes)
    put_own(custom, OwnKey.DATASETS, facts.datasets.summary, limits, notes)
    if record.versions:
        named = compact_json(names_of(record.versions))
        put_own(custom, OwnKey.VERSIONS, named, limits, notes)
    # The run's name is a tag too; the tag is worth keeping only where it says something else.
    same = run.name is None or run.name == run.tags.get(NAME_TAG)
    without = _SAID_ELSEWHERE_AND_NAME if same else _SAID_ELSEWHERE
    put_tags(custom, run.tags, limits, notes, without=without)


def _model(record: JoinedRun, custom: dict[str, str], facts: _Facts) -> Aspect:
    scope, run, notes = record.scope, record.run, facts.notes
    limits = scope.limits
    result: dict[str, Any] = {"customProperties": custom, "name": _name(record, notes)}
    _put_scalars(result, record, facts)
    result["hyperParams"] = hyper_params(run.params, custom, limits, notes)
    result["trainingMetrics"] = training_metrics(
        run, record.models, custom, limits, notes, system_metrics=scope.options.system_metrics
    )
    if record.experiment is not None:
        result["groups"] = [scope.experiment_group(record.experiment).urn]
    else:
        # Without its experiment the list would be incomplete, and an incomplete list removes.
        notes.append(Note("experiment_unknown", run.experiment_id))
    return sized(result, limits, notes)


def _put_run_facts(custom: dict[str, str], record: JoinedRun, notes: list[Note]) -> None:
    run, limits = record.run, record.scope.limits
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
        put_own(custom, key, value, limits, notes)


def _duration(run: Run) -> str | None:
    if run.start_time_ms is None or run.end_time_ms is None:
        return None
    duration = run.end_time_ms - run.start_time_ms
    return str(duration) if abs(duration) <= MAX_INT64 else None


def _name(record: JoinedRun, notes: list[Note]) -> str:
    run = record.run
    name = run.name or run.tags.get(NAME_TAG)
    if not name:
        experiment = record.experiment
        place = (experiment.name if experiment else "") or run.experiment_id or "run"
        name = f"{place} {run.run_id[:_SHORT_ID]}"
    return display_name(record.scope, name, notes)


def _put_scalars(result: dict[str, Any], record: JoinedRun, facts: _Facts) -> None:
    run, limits, notes = record.run, record.scope.limits, facts.notes
    note = run.tags.get(NOTE_TAG)
    result["description"] = fit_or_none(note, limits.description_chars, notes, "description")
    created = time_stamp(run.start_time_ms, notes, "start time", facts.user)
    result["date"] = None if created is None else created["time"]
    result["created"] = created
    ended = run.start_time_ms if run.end_time_ms is None else run.end_time_ms
    result["lastModified"] = time_stamp(ended, notes, "end time")
    result["externalUrl"] = record.scope.links.run(run.experiment_id, run.run_id)
    result["type"] = fit_or_none(_type(record), limits.value_chars, notes, "type")
    result["trainingJobs"] = training_jobs(run.tags, notes)


def _type(record: JoinedRun) -> str | None:
    """Return the estimator that autologging named, else the type of the first logged model."""
    tags = record.run.tags
    kind = tags.get("estimator_name") or tags.get("estimator_class")
    if kind or not record.models:
        return kind
    models = (record.models.get(output.model_id) for output in record.run.model_outputs)
    return next((m.model_type for m in models if m is not None and m.model_type), None)
