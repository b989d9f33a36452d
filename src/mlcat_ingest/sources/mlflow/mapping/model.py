"""Maps a run to an mlModel in its experiment's group: properties, source code, training jobs."""

import re
from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.errors import InvalidUrnError, RecordError
from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS, OWNERSHIP
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES, SOURCE_CODE
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.sources.mlflow.mapping.datasets import NO_DATASETS, dataset_facts
from mlcat_ingest.sources.mlflow.mapping.evidence import run_evidence, with_evidence
from mlcat_ingest.sources.mlflow.mapping.groups import NO_VERSION, names_of
from mlcat_ingest.sources.mlflow.mapping.metrics import hyper_params, training_metrics
from mlcat_ingest.sources.mlflow.mapping.properties import (
    NO_TAGS,
    PropertiesBuilder,
    common_properties,
    first_aspects,
)
from mlcat_ingest.sources.mlflow.mapping.text import MAX_INT64, Fitter, compact_json, fit_size
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import (
    COMMIT_TAGS,
    HISTORY_TAG,
    NAME_TAG,
    NOTE_TAG,
    PARENT_TAG,
    REPO_TAGS,
    USER_TAG,
    LoggedModel,
    ModelOutput,
    OwnKey,
    Run,
    logged_history,
)

_MAPPED_TAGS: Final = frozenset({NOTE_TAG, HISTORY_TAG})
_MAPPED_TAGS_AND_NAME: Final = _MAPPED_TAGS | {NAME_TAG}
_SHORT_ID: Final = 8

_KINDS: Final = frozenset({"dataJob", "dataProcessInstance"})
# git@host:path and ssh://git@host/path; no other address form names a user and no scheme.
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+\.[\w-]+):(?!//)([\w./~-]+)$")

_URL = re.compile(r"^(?:git\+)?(https?|ssh|git)://(?:[^/]*@)?([^/:@]+)(:\d+)?/(.+)$")
_COMMIT = re.compile(r"^[0-9A-Za-z]{4,64}$")
NO_SOURCE_CODE: Final[Aspect] = {"sourceCode": []}


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
    _add_properties(custom, record, datasets.summary)
    aspects[ML_MODEL_PROPERTIES] = _model(record, custom, user)
    model = Entity(name.urn, aspects, notes=tuple(fitter.notes))
    return [with_evidence(model, run_evidence(record), scope)]


def _side_aspects(record: JoinedRun, user: str | None) -> dict[str, Aspect]:
    tags = record.run.tags
    aspects = first_aspects(record.scope, removed=record.is_removed)
    aspects[OWNERSHIP] = record.scope.owners.ownership(user)
    aspects[SOURCE_CODE] = source_code(tags)
    aspects[GLOBAL_TAGS] = NO_TAGS
    if record.versions:
        aspects[VERSION_PROPERTIES] = NO_VERSION
    return aspects


def _add_properties(custom: PropertiesBuilder, record: JoinedRun, datasets: str) -> None:
    run = record.run
    _add_run_facts(custom, record)
    add_logged_models(custom, run, record.models)
    add_history(custom, run.tags)
    custom.set_own(OwnKey.DATASETS, datasets)
    if record.versions:
        custom.set_own(OwnKey.VERSIONS, compact_json(names_of(record.versions)))
    # The run's name is a tag too; the tag is worth keeping only where it says something else.
    same = run.name is None or run.name == run.tags.get(NAME_TAG)
    without = _MAPPED_TAGS_AND_NAME if same else _MAPPED_TAGS
    custom.add_tags(run.tags, without=without)


def _model(record: JoinedRun, custom: PropertiesBuilder, user: str | None) -> Aspect:
    scope, run, fitter = record.scope, record.run, custom.fitter
    result: dict[str, Any] = {
        "customProperties": custom.values,
        "name": fitter.text(_name(record), "name"),
    }
    _set_scalars(result, record, user, fitter)
    result["hyperParams"] = hyper_params(run.params, custom)
    result["trainingMetrics"] = training_metrics(
        run, record.models, custom, system_metrics=scope.options.system_metrics
    )
    if record.experiment is not None:
        result["groups"] = [scope.experiment_group(record.experiment).urn]
    else:
        # Without its experiment the list would be incomplete, and an incomplete list removes.
        fitter.note("experiment_unknown", run.experiment_id)
    return fit_size(result, fitter)


def _add_run_facts(custom: PropertiesBuilder, record: JoinedRun) -> None:
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
        custom.set_own(key, value)


def _duration(run: Run) -> str | None:
    if run.start_time_ms is None or run.end_time_ms is None:
        return None
    duration = run.end_time_ms - run.start_time_ms
    return str(duration) if abs(duration) <= MAX_INT64 else None


def _name(record: JoinedRun) -> str:
    run, experiment = record.run, record.experiment
    name = run.name or run.tags.get(NAME_TAG)
    place = (experiment.name if experiment else "") or run.experiment_id or "run"
    return name or f"{place} {run.run_id[:_SHORT_ID]}"


def _set_scalars(
    result: dict[str, Any], record: JoinedRun, user: str | None, fitter: Fitter
) -> None:
    run = record.run
    result["description"] = fitter.description(run.tags.get(NOTE_TAG))
    created = fitter.time_stamp(run.start_time_ms, "start time", user)
    result["date"] = None if created is None else created["time"]
    result["created"] = created
    end_ms = run.start_time_ms if run.end_time_ms is None else run.end_time_ms
    result["lastModified"] = fitter.time_stamp(end_ms, "end time")
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


def add_logged_models(
    custom: PropertiesBuilder, run: Run, models: Mapping[str, LoggedModel]
) -> None:
    """Add JSON lists of the logged models that a run made, and of the ids of those it used."""
    if run.model_outputs:
        outputs = []
        for output in run.model_outputs:
            if output.model_id not in models:
                custom.fitter.note("logged_model_unlisted", output.model_id)
            outputs.append(_describe_output(output, models.get(output.model_id)))
        custom.set_own(OwnKey.LOGGED_MODELS, compact_json(outputs))
    if run.model_inputs:
        custom.set_own(OwnKey.MODEL_INPUTS, compact_json(run.model_inputs))


def _describe_output(output: ModelOutput, model: LoggedModel | None) -> dict[str, str | int]:
    facts: dict[str, str | int | None] = {"id": output.model_id}
    if model is not None:
        facts["name"] = model.name
    facts["step"] = output.step
    if model is not None:
        facts["status"] = model.status
        facts["type"] = model.model_type or None
    return {key: value for key, value in facts.items() if value is not None}


def add_history(custom: PropertiesBuilder, tags: Mapping[str, str]) -> None:
    """Add what names the models of MLflow 2's list: flavors, UUIDs, artifact paths."""
    history = tags.get(HISTORY_TAG)
    if not history:
        return
    models = logged_history(tags)
    if not models:
        custom.fitter.note("unreadable_tag", HISTORY_TAG)
        custom.values[HISTORY_TAG] = custom.fitter.text(history, HISTORY_TAG)
        return
    flavors: dict[str, None] = {}
    for model in models:
        found = model.get("flavors")
        flavors.update(dict.fromkeys(found if isinstance(found, dict) else ()))
    custom.set_own(OwnKey.MODEL_FLAVORS, ",".join(sorted(flavors)))
    custom.set_own(OwnKey.MODEL_UUID, _join_texts(models, "model_uuid"))
    custom.set_own(OwnKey.MODEL_ARTIFACT_PATH, _join_texts(models, "artifact_path"))


def _join_texts(models: list[dict[str, Any]], key: str) -> str:
    values = (model.get(key) for model in models)
    return ",".join(value for value in values if isinstance(value, str) and value)


def training_jobs(tags: Mapping[str, str], fitter: Fitter) -> list[str] | None:
    """Return the job that a run's tags name, None for none; what is no job is noted."""
    if not tags.get(TRAINING_JOB_TAG):
        return None
    urn = tags[TRAINING_JOB_TAG].strip()
    try:
        check(urn)
        problem = "" if entity_type_of(urn) in _KINDS else f"{urn} is no job"
    except InvalidUrnError as error:
        problem = str(error)
    if problem:
        fitter.note("training_job_invalid", problem)
        return None
    return [urn]


def source_code(tags: Mapping[str, str]) -> Aspect:
    """Return the `sourceCode` aspect of a run, empty where commit or repository is unknown."""
    commit = tags.get(COMMIT_TAGS[0]) or tags.get(COMMIT_TAGS[1])
    if not commit or not _COMMIT.match(commit):
        return NO_SOURCE_CODE
    for tag in REPO_TAGS:
        repository = tags.get(tag)
        url = commit_url(repository, commit) if repository else None
        if url:
            return {"sourceCode": [{"type": "TRAINING_PIPELINE_SOURCE_CODE", "sourceCodeUrl": url}]}
    return NO_SOURCE_CODE


def commit_url(repository: str, commit: str) -> str | None:
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
