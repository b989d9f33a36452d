"""Comparison of what the catalog holds of MLflow 3's logged models."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import ModelFilter, Reader
from mlcat_ingest.sources.mlflow.values.records import (
    NOTE_TAG,
    REPO_TAGS,
    Experiment,
    LoggedModel,
    PropertyKey,
    Run,
    SubType,
    json_or_none,
)
from mlcat_ingest.workflows.verify_entities import CUSTOM, EntityComparison, clean
from mlcat_ingest.workflows.verify_kinds import KIND_ASPECTS, KindComparison
from mlcat_ingest.workflows.verify_orphans import Listing
from mlcat_ingest.workflows.verify_result import VerifyResult

_NO_ROOM: Final = "of one of several logged models, beyond the limit of one property"


class RunTexts(NamedTuple):
    """The parameters and tags that the model of a run should have, its logged model's included."""

    params: Mapping[str, str]
    tags: Mapping[str, str]


def with_models(run: Run, models: Mapping[str, LoggedModel], without: Collection[str]) -> RunTexts:
    """Return parameters and tags of a run and of its only logged model.

    A tag that is `without` its own property on a run has one if it is the model's.
    """
    model = _only_model(run, models)
    if model is None:
        return RunTexts(run.params, run.tags)
    params = {**run.params, **{k: v for k, v in model.params.items() if k not in run.params}}
    for key in sorted(model.params):
        if params[key] != model.params[key]:
            wanted = free = f"{model.name or model.model_id}/{key}"
            number = 2
            while free in params:
                free = f"{wanted} ({number})"
                number += 1
            params[free] = model.params[key]
    tags = dict(run.tags)
    for key, value in sorted(model.tags.items()):
        if run.tags.get(key) != value:
            name = key
            while name in tags or name in without:
                name = f"model.{name}"
            tags[name] = redact_urls(value) if key in REPO_TAGS else value
    return RunTexts(params, tags)


def _only_model(run: Run, models: Mapping[str, LoggedModel]) -> LoggedModel | None:
    ids = {one.model_id for one in run.model_outputs}
    return models.get(min(ids)) if len(ids) == 1 else None


def compare_made_models(
    entity: EntityComparison, run: Run, models: Mapping[str, LoggedModel]
) -> None:
    """Compare what the model of a run says of the logged models that the run made."""
    model = _only_model(run, models)
    if model is not None:
        entity.fact("run", PropertyKey.MODEL_ID, model.model_id)
        entity.fact("run", PropertyKey.MODEL_STATUS, model.status)
        return
    made = [models[one.model_id] for one in run.model_outputs if one.model_id in models]
    held = _by_id(entity.custom.get(PropertyKey.LOGGED_MODELS))
    is_cut = "logged models" in (entity.custom.get(PropertyKey.LEFT_OUT) or "")
    for one in made:
        found = held.get(one.model_id)
        if found is None and is_cut:
            entity.leave_out("logged model", "beyond the limit of one property", 1)
        elif found is None:
            field = f"{CUSTOM}[{PropertyKey.LOGGED_MODELS}]"
            entity.report("missing", "logged model", field, one.model_id, None)
        else:
            _compare_listed(entity, one, found, run, is_cut=is_cut)


def _compare_listed(
    entity: EntityComparison,
    model: LoggedModel,
    found: Mapping[str, Any],
    run: Run,
    *,
    is_cut: bool,
) -> None:
    """Compare one of several logged models of a run with its place in the list of them."""
    start = f"{CUSTOM}[{PropertyKey.LOGGED_MODELS}][{model.model_id}]"
    entity.text_in_list("logged model", f"{start}.status", model.status, found.get("status"))
    params, tags = _clean_keys(found.get("params")), _clean_keys(found.get("tags"))
    of_run = run.tags
    others = {k: v for k, v in model.tags.items() if of_run.get(k) != v}
    if is_cut and not params and not tags:
        entity.leave_out("parameter", _NO_ROOM, len(model.params))
        entity.leave_out("tag", _NO_ROOM, len(others))
        return
    for key, value in model.params.items():
        entity.text_in_list("parameter", f"{start}.params[{key}]", value, params.get(clean(key)))
    for key, value in others.items():
        shown = redact_urls(value) if key in REPO_TAGS else value
        entity.text_in_list("tag", f"{start}.tags[{key}]", shown, tags.get(clean(key)))


class ExternalComparison:
    """The external models of a workspace, to be compared after the runs."""

    def __init__(
        self,
        reader: Reader,
        config: MlflowConfig,
        catalog: Catalog,
        result: VerifyResult,
        listing: Listing,
        kinds: KindComparison,
    ) -> None:
        """Compare what `reader` lists with `catalog`, and add it to `listing`."""
        self._reader = reader
        self._runs = config.runs
        self._catalog = catalog
        self._result = result
        self._listing = listing
        self._kinds = kinds
        self._made: set[int] = set()

    def add_outputs(self, run: Run) -> None:
        """Take note of the logged models that a run names as its outputs."""
        self._made.update(hash(one.model_id) for one in run.model_outputs)

    def compare(
        self,
        experiments: Mapping[str, Experiment],
        since_ms: int | None,
        newest: int | None,
        named: Container[str],
    ) -> Iterator[None]:
        """Compare page by page, only so many of the `newest` where that is given.

        Versions name the logged models `named`, which `runs.select: registered` lets pass.

        Cost: the listing of logged models, and a request to the catalog for 200 external ones.
        """
        only = ModelFilter(newest_external=newest)
        for page in self._reader.logged_models(list(experiments), only=only):
            chosen = []
            for one in page:
                if one.is_external:
                    self._listing.add(self._listing.model_urn(one.model_id))
                    reason = self._option_against(one, since_ms, named)
                    if reason:
                        self._result.leave_out("external model", f"by `{reason}`")
                    else:
                        chosen.append(one)
                elif hash(one.model_id) not in self._made:
                    self._result.leave_out("logged model", "that no compared run names")
            for some in chunks(chosen, MAX_REQUEST_ITEMS):
                self._compare_models(some, experiments)
            yield

    def _option_against(
        self, model: LoggedModel, since_ms: int | None, named: Container[str]
    ) -> str | None:
        if since_ms is not None and (model.created_at_ms or 0) < since_ms:
            return "runs.since"
        registered_only = self._runs.select == "registered"
        return "runs.select" if registered_only and model.model_id not in named else None

    def _compare_models(
        self, models: Sequence[LoggedModel], experiments: Mapping[str, Experiment]
    ) -> None:
        urns = [self._listing.model_urn(one.model_id) for one in models]
        stored = self._catalog.read_many(urns, [ML_MODEL_PROPERTIES, STATUS, *KIND_ASPECTS])
        for urn, one in zip(urns, models, strict=True):
            experiment, held = experiments[one.experiment_id], stored.get(urn, {})
            entity = EntityComparison(self._result, urn, ML_MODEL_PROPERTIES, held)
            if experiment.lifecycle_stage == "deleted":
                if not entity.is_hidden("external model"):
                    field = f"{STATUS}.removed"
                    entity.report("stale", "external model", field, "true", "false")
            elif entity.is_live("external model", one.name or one.model_id):
                entity.fact("external model", PropertyKey.MODEL_STATUS, one.status)
                entity.params(one.params)
                entity.metrics((), one.metrics, system=False)
                entity.tags(one.tags, without={NOTE_TAG})
                entity.description(one.tags.get(NOTE_TAG))
                entity.membership(self._listing.group_urn(experiment))
                folder = experiment.name or experiment.experiment_id
                self._kinds.compare(urn, held, SubType.EXTERNAL_MODEL, folder=folder)


def _clean_keys(texts: object) -> Mapping[str, Any]:
    listed = texts if isinstance(texts, dict) else {}
    return {clean(key): value for key, value in listed.items()}


def _by_id(text: str | None) -> Mapping[str, Mapping[str, Any]]:
    entries = json_or_none(text)
    listed = entries if isinstance(entries, list) else []
    return {str(one.get("id")): one for one in listed if isinstance(one, dict)}
