"""Maps a run, or an external model of MLflow 3, to an mlModel in its experiment's group."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.core.text import compact_json
from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.aspects import (
    GLOBAL_TAGS,
    ML_MODEL_PROPERTIES,
    OWNERSHIP,
    SOURCE_CODE,
    SUB_TYPES,
)
from mlcat_ingest.metadata.mlflow_keys import COMMIT_TAGS
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.sources.mlflow.mapping.datasets import NO_DATASETS, dataset_facts
from mlcat_ingest.sources.mlflow.mapping.evidence import (
    external_evidence,
    run_evidence,
    with_evidence,
)
from mlcat_ingest.sources.mlflow.mapping.groups import names_of, run_model
from mlcat_ingest.sources.mlflow.mapping.logged_models import (
    add_logged_models,
    add_model_facts,
    only_model,
    params_with_model,
    tags_with_model,
)
from mlcat_ingest.sources.mlflow.mapping.metrics import (
    hyper_params,
    model_metrics,
    training_metrics,
)
from mlcat_ingest.sources.mlflow.mapping.process import map_process, training_jobs
from mlcat_ingest.sources.mlflow.mapping.properties import (
    NO_TAGS,
    PropertiesBuilder,
    browse_path,
    common_properties,
    first_aspects,
    shown_tags,
    user_of,
)
from mlcat_ingest.sources.mlflow.mapping.signature import add_card, add_documents
from mlcat_ingest.sources.mlflow.mapping.text import (
    MAX_INT64,
    Truncator,
    truncate_aspect,
)
from mlcat_ingest.sources.mlflow.values.joined import JoinedLoggedModel, JoinedRun
from mlcat_ingest.sources.mlflow.values.records import (
    HISTORY_TAG,
    NAME_TAG,
    NOTE_TAG,
    PARENT_TAG,
    REPO_TAGS,
    USER_TAG,
    PropertyKey,
    Run,
    SubType,
    logged_history,
    name_of,
)
from mlcat_ingest.sources.mlflow.values.signatures import MadeModel, made_models

# git@host:path and ssh://git@host/path; no other address form names a user and no scheme.
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+\.[\w-]+):(?!//)([\w./~-]+)$")

_URL = re.compile(r"^(?:git\+)?(https?|ssh|git)://(?:[^/]*@)?([^/:@]+)(:\d+)?/(.+)$")
_COMMIT = re.compile(r"^[0-9A-Za-z]{4,64}$")
NO_SOURCE_CODE: Final[Aspect] = {"sourceCode": []}

_MAPPED_TAGS: Final = frozenset({NOTE_TAG, HISTORY_TAG})

_MAPPED_TAGS_AND_NAME: Final = _MAPPED_TAGS | {NAME_TAG}

_SHORT_ID: Final = 8

_MAPPED_TAGS_OF_EXTERNAL: Final = frozenset({NOTE_TAG})


def _source_code(tags: Mapping[str, str]) -> Aspect:
    """Return the `sourceCode` aspect of a run, empty where commit or repository is unknown."""
    commit = tags.get(COMMIT_TAGS[0]) or tags.get(COMMIT_TAGS[1])
    if not commit or not _COMMIT.match(commit):
        return NO_SOURCE_CODE
    for tag in REPO_TAGS:
        repository = tags.get(tag)
        url = _commit_url(repository, commit) if repository else None
        if url:
            return {"sourceCode": [{"type": "TRAINING_PIPELINE_SOURCE_CODE", "sourceCodeUrl": url}]}
    return NO_SOURCE_CODE


def _commit_url(repository: str, commit: str) -> str | None:
    """Return the web address of `commit` in `repository`, without credentials.

    None if `repository` is no address of a git server (a local path, a script's name).
    """
    address = repository.partition("#")[0].strip()
    if match := _URL.match(address):
        scheme, host, port, path = match.groups()
        web = f"http://{host}" if scheme == "http" else f"https://{host}"
        if port and scheme in {"http", "https"}:
            web += port
    elif match := _SCP.match(address):
        host, path = match.groups()
        web = f"https://{host}"
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    if not path or any(char.isspace() or not char.isprintable() for char in path):
        return None
    return f"{web}/{path}{_at_commit(host.lower(), commit)}"


def _at_commit(host: str, commit: str) -> str:
    if "gitlab" in host:
        return f"/-/tree/{commit}"
    if "bitbucket" in host:
        return f"/src/{commit}"
    if host.endswith((".visualstudio.com", "dev.azure.com")):
        return f"?version=GC{commit}"
    return f"/tree/{commit}"


def map_run(record: JoinedRun) -> list[Entity]:
    """Return the model that a run is, after its process instance where the recipe wants one.

    An ordinary run has `mlModelProperties`, `ownership`, `browsePathsV2` and, where a commit is
    known, `sourceCode` to be written; the others are empty then, and `status` only matters where
    the catalog holds the model as removed. Properties come last.

    Raises:
        RecordError: the run has no id.
        InvalidUrnError: the id cannot be part of a URN.
    """
    scope, run = record.scope, record.run
    if not run.run_id:
        raise RecordError("a run without an id", record_ref=f"experiment {run.experiment_id}")
    truncator = Truncator(scope.limits)
    if record.files.unread:
        truncator.note("feature_file_unread", record.files.unread)
    if record.files.skipped:
        how = "`features.model_files: true` reads the signatures of MLflow 3"
        truncator.note("signature_not_read", f"{record.files.skipped}; {how}")
    name = scope.naming.model(run.run_id)
    user = user_of(scope, run)
    datasets = NO_DATASETS
    if run.datasets:
        datasets = dataset_facts(
            run.datasets,
            scope.datasets,
            scope.naming.env,
            truncator,
            evaluates=record.trains_with_no_data,
            measured_on=record.measured_on,
        )
    aspects = _side_aspects(record, user)
    aspects.update(datasets.aspects)
    custom = common_properties(scope, name, truncator)
    made = made_models(record)
    _add_properties(custom, record, datasets.summary, made)
    add_card(aspects, record.files, made, truncator)
    aspects[ML_MODEL_PROPERTIES] = _model(record, custom, user)
    # Of unread files nothing is taken back, and other runs may be its children.
    unknown = {ML_MODEL_PROPERTIES: record.files.unread, SUB_TYPES: record.has_children is None}
    adds_only = frozenset(name for name, is_unknown in unknown.items() if is_unknown)
    model = Entity(name.urn, aspects, notes=tuple(truncator.notes), adds_only=adds_only)
    linked = with_evidence(model, run_evidence(record), scope)
    if not scope.options.process_instances:
        return [linked]
    return [map_process(record, model, datasets.urns), linked]


def _side_aspects(record: JoinedRun, user: str | None) -> dict[str, Aspect]:
    scope, tags, experiment = record.scope, record.run.tags, record.experiment
    path = None
    if experiment is not None:
        path = browse_path(scope, experiment.name or experiment.experiment_id)
    kinds = {
        SubType.EVALUATION_RUN: record.is_evaluation,
        SubType.PARENT_RUN: record.has_children,
    }
    own = (kind for kind, applies in kinds.items() if applies)
    aspects = first_aspects(scope, *own, removed=record.is_removed, path=path)
    aspects[OWNERSHIP] = scope.owners.ownership(user)
    aspects[SOURCE_CODE] = _source_code(tags)
    aspects[GLOBAL_TAGS] = NO_TAGS
    return aspects


def _add_properties(
    custom: PropertiesBuilder, record: JoinedRun, datasets: str, made: Sequence[MadeModel]
) -> None:
    run = record.run
    _add_run_facts(custom, record)
    if record.measures:
        models = [record.scope.naming.model(model.model_id).urn for model in record.measures]
        custom.set_own(PropertyKey.METRICS_OF, compact_json(models))
    if run.model_outputs or run.model_inputs:
        add_logged_models(custom, run, record.models)
    _add_history(custom, run.tags)
    add_documents(custom, made)
    custom.set_own(PropertyKey.DATASETS, datasets)
    if record.versions:
        custom.set_own(PropertyKey.VERSIONS, compact_json(names_of(record.versions)))
    # The run's name is a tag too; the tag is kept only if it differs.
    same = run.name is None or run.name == run.tags.get(NAME_TAG)
    without = _MAPPED_TAGS_AND_NAME if same else _MAPPED_TAGS
    model = only_model(run, record.models)
    tags = run.tags if model is None else tags_with_model(run.tags, model, without)
    custom.add_tags(tags, without=without)


def _model(record: JoinedRun, custom: PropertiesBuilder, user: str | None) -> Aspect:
    scope, run, truncator = record.scope, record.run, custom.truncator
    times_ms, names = (run.start_time_ms, run.ended_at_ms), ("start time", "end time")
    params = params_with_model(run, only_model(run, record.models))
    result: dict[str, Any] = {
        "customProperties": custom.values,
        "name": truncator.text(_name(record), "name"),
        "description": truncator.description(run.tags.get(NOTE_TAG)),
        **truncator.times(*times_ms, user, names=names),
        "externalUrl": scope.links.run(run.experiment_id, run.run_id),
        "type": truncator.optional(_type(record), "type"),
        "trainingJobs": training_jobs(record, truncator),
        "hyperParams": hyper_params(params, custom),
        "trainingMetrics": training_metrics(record, custom),
        "tags": shown_tags(run.tags, run.status),
    }
    if record.experiment is not None:
        result["groups"] = [scope.experiment_group(record.experiment).urn]
    else:
        # Without its experiment the list would be incomplete, and an incomplete list removes.
        truncator.note("experiment_unknown", run.experiment_id)
    return truncate_aspect(result, truncator)


def _add_run_facts(custom: PropertiesBuilder, record: JoinedRun) -> None:
    run = record.run
    parent = run.tags.get(PARENT_TAG)
    stage = None if run.lifecycle_stage == "active" else run.lifecycle_stage
    # Pairs: a dictionary would call `Enum.__hash__` for each key.
    facts = (
        (PropertyKey.RUN_ID, run.run_id),
        (PropertyKey.EXPERIMENT_ID, run.experiment_id),
        (PropertyKey.STATUS, run.status),
        (PropertyKey.LIFECYCLE_STAGE, stage),
        (PropertyKey.ARTIFACT_URI, run.artifact_uri),
        (PropertyKey.DURATION_MS, _duration(run)),
        (PropertyKey.PARENT_RUN, run_model(record.scope, record.parent_id)),
        (PropertyKey.PARENT_RUN_ID, parent),
        (PropertyKey.PARENT_RUN_NAME, record.parent_name),
        (PropertyKey.CHILDREN, None if record.children is None else str(record.children)),
        (PropertyKey.ABANDONED, "true" if record.abandoned else None),
    )
    for key, value in facts:
        if value:
            custom.set_own(key, value)


def _duration(run: Run) -> str | None:
    if run.start_time_ms is None or run.ended_at_ms is None:
        return None
    duration = run.ended_at_ms - run.start_time_ms
    return str(duration) if 0 <= duration <= MAX_INT64 else None


def _name(record: JoinedRun) -> str:
    run, experiment = record.run, record.experiment
    name = name_of(run)
    if record.measures:
        # MLflow starts such a run by itself, and gives it a random name.
        first, *others = (model.name for model in record.measures)
        more = f" and {len(others)} more" if others else ""
        return f"metrics of {first}{more} ({name or run.run_id[:_SHORT_ID]})"
    place = (experiment.name if experiment else "") or run.experiment_id or "run"
    return name or f"{place} {run.run_id[:_SHORT_ID]}"


def _type(record: JoinedRun) -> str | None:
    """Return the estimator that autologging named, else the type of the first logged model."""
    tags = record.run.tags
    kind = tags.get("estimator_name") or tags.get("estimator_class")
    if kind or not record.models:
        return kind
    models = (record.models.get(output.model_id) for output in record.run.model_outputs)
    return next((m.model_type for m in models if m is not None and m.model_type), None)


def _add_history(custom: PropertiesBuilder, tags: Mapping[str, str]) -> None:
    """Add what names the models of MLflow 2's list: UUIDs and artifact paths."""
    history = tags.get(HISTORY_TAG)
    if not history:
        return
    models = logged_history(tags)
    if not models:
        custom.truncator.note("unreadable_tag", HISTORY_TAG)
        custom.values[HISTORY_TAG] = custom.truncator.text(history, HISTORY_TAG)
        return
    custom.set_own(PropertyKey.MODEL_UUID, _join_texts(models, "model_uuid"))
    custom.set_own(PropertyKey.MODEL_ARTIFACT_PATH, _join_texts(models, "artifact_path"))


def _join_texts(models: Sequence[Mapping[str, Any]], key: str) -> str:
    values = (model.get(key) for model in models)
    return ",".join(value for value in values if isinstance(value, str) and value)


def map_external_model(record: JoinedLoggedModel) -> list[Entity]:
    """Return the model that an external model is, named by its id as a run is by its own.

    Raises:
        RecordError: the model has no id.
        InvalidUrnError: the id cannot be part of a URN.
    """
    scope, model, experiment = record.scope, record.model, record.experiment
    if not model.model_id:
        raise RecordError("a logged model without an id", record_ref=f"logged model {model.name}")
    truncator = Truncator(scope.limits)
    name = scope.naming.model(model.model_id)
    user = scope.owners.urn(model.tags.get(USER_TAG))
    removed = experiment.lifecycle_stage == "deleted"
    path = browse_path(scope, experiment.name or experiment.experiment_id)
    aspects = first_aspects(scope, SubType.EXTERNAL_MODEL, removed=removed, path=path)
    aspects[OWNERSHIP] = scope.owners.ownership(user)
    aspects[SOURCE_CODE] = _source_code(model.tags)
    aspects[GLOBAL_TAGS] = NO_TAGS
    custom = common_properties(scope, name, truncator)
    add_model_facts(custom, model)
    custom.set_own(PropertyKey.EXPERIMENT_ID, model.experiment_id)
    custom.set_own(PropertyKey.ARTIFACT_URI, model.artifact_uri)
    custom.set_own(PropertyKey.RUN_ID, model.source_run_id)
    custom.set_own(PropertyKey.RUN_MODEL, run_model(scope, model.source_run_id))
    custom.add_tags(model.tags, without=_MAPPED_TAGS_OF_EXTERNAL)
    aspects[ML_MODEL_PROPERTIES] = _properties(record, custom, user)
    entity = Entity(name.urn, aspects, notes=tuple(truncator.notes))
    return [with_evidence(entity, external_evidence(record), scope)]


def _properties(record: JoinedLoggedModel, custom: PropertiesBuilder, user: str | None) -> Aspect:
    scope, model, truncator = record.scope, record.model, custom.truncator
    result: dict[str, Any] = {
        "customProperties": custom.values,
        "name": truncator.text(model.name or model.model_id, "name"),
        "description": truncator.description(model.tags.get(NOTE_TAG)),
        **truncator.times(model.created_at_ms, model.last_updated_at_ms, user),
        "externalUrl": scope.links.logged_model(model.experiment_id, model.model_id),
        "type": truncator.optional(model.model_type, "type"),
        "hyperParams": hyper_params(model.params, custom),
        "trainingMetrics": model_metrics(model, custom),
        "tags": shown_tags(model.tags),
        "groups": [scope.experiment_group(record.experiment).urn],
    }
    return truncate_aspect(result, truncator)
