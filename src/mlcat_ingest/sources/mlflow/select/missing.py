"""Finds entities that MLflow deleted or renamed, as candidates for a soft delete.

The listings of a complete pass lacked them. Listing is no proof: a server that checks permissions
leaves out what we may not see. So a run is looked for by its id in bulk, and whatever is still
missing can be asked for by name.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from typing import Final, NamedTuple

from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.identity import is_another
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    Kind,
    MlflowObject,
    ModelFilter,
    Reader,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.values.joined import DATASET, WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import Experiment, PropertyKey

_PROCESS: Final = "dataProcessInstance"
_KINDS: Final[tuple[Kind, ...]] = ("experiment", "run", "logged_model", "registered", "version")
_IN_EXPERIMENTS: Final = frozenset({"run", "logged_model"})


class _Suspect(NamedTuple):
    """An entity, the object that it was made from, and what contained this if not listed."""

    entity: Unlisted
    source: MlflowObject
    container: MlflowObject | None


def find_missing(
    reader: Reader, scope: WorkspaceScope, unlisted: Sequence[Unlisted], *, tables_listed: bool
) -> Iterator[Missing]:
    """Yield those of `unlisted` that MLflow does not hold, or not under this name.

    MLflow cannot be asked for a feature table of a signature, nor for a dataset. Such an entity is
    missing if two passes in a row lack it, and all tables were listed (`tables_listed`).

    An entity whose URN this naming would not make is left out: it proves nothing.

    Of an experiment that is denied or gone, the runs and logged models are not asked for.

    Cost: one listing of runs, or of logged models, for each 100 of their entities; the listings of
    experiments, registered models and versions where entities of theirs are among `unlisted`.
    """
    yield from _unasked(scope, unlisted, all_listed=tables_listed)
    experiments = {
        experiment.experiment_id: experiment for page in reader.experiments() for experiment in page
    }
    suspects = _suspects(scope, unlisted, experiments)
    living = {
        scope.experiment_group(experiment).urn
        for experiment in experiments.values()
        if experiment.lifecycle_stage != "deleted"
    }
    # Each object is asked for once: an experiment has many runs.
    is_gone = cache(reader.is_gone)
    for kind in _KINDS:
        candidates = suspects.get(kind, ())
        listed = _listed(reader, kind, experiments, candidates) if candidates else {}
        for suspect in candidates:
            urn, source = suspect.entity.urn, suspect.source
            if kind == "experiment" and urn in living:
                continue  # another experiment of this name is there
            key = source.name, source.version
            if key not in listed:
                yield Missing(urn, partial(_is_gone, is_gone, suspect))
            elif is_another(suspect.entity.properties, {"created": {"time": listed[key]}}):
                yield Missing(urn, lambda: True)  # its id, or its name, was given again
            elif kind == "experiment":
                group = scope.experiment_group(experiments[source.name]).urn
                if group != urn:
                    yield Missing(urn, lambda: True, moved_to=group)


def _is_gone(is_gone: Callable[[MlflowObject], bool], suspect: _Suspect) -> bool:
    """Return whether MLflow reports that the object of an entity does not exist.

    A container that is gone is proof for all that it held; what it denies of one that it denies
    may be there or not. Its basic-auth denies a version of a deleted model.
    """
    source = suspect.source
    if suspect.container is not None:
        return is_gone(suspect.container)
    return is_gone(source) or (
        source.kind == "version" and is_gone(MlflowObject("registered", source.name))
    )


def _unasked(
    scope: WorkspaceScope, unlisted: Sequence[Unlisted], *, all_listed: bool
) -> Iterator[Missing]:
    """Yield process instances, datasets and tables of signatures, none of which MLflow holds."""
    options, links = scope.options, scope.options.links
    wanted = {_PROCESS: options.process_instances, DATASET: options.datasets == "create"}
    for entity in unlisted:
        kind = entity_type_of(entity.urn)
        is_wanted, is_derived = wanted.get(kind, True), kind == DATASET
        # Where models are not linked, the links to features of signatures stay, too.
        if links is not None and PropertyKey.SIGNATURE_OF in (entity.properties.get(CUSTOM) or {}):
            is_wanted, is_derived = links.from_signature, True
        if not is_wanted:
            yield Missing(entity.urn, lambda: True, switched_off=True)
        elif is_derived and all_listed:
            yield Missing(entity.urn, lambda: True, second_pass=True)


def _suspects(
    scope: WorkspaceScope, unlisted: Sequence[Unlisted], experiments: Container[str]
) -> Mapping[str, Sequence[_Suspect]]:
    suspects: dict[str, list[_Suspect]] = {}
    for entity in unlisted:
        source = object_of(scope, entity.urn, entity.properties)
        if source is None:
            continue
        experiment_id = (entity.properties.get(CUSTOM) or {}).get(PropertyKey.EXPERIMENT_ID)
        container = None
        if source.kind in _IN_EXPERIMENTS and experiment_id and experiment_id not in experiments:
            container = MlflowObject("experiment", experiment_id)
        suspects.setdefault(source.kind, []).append(_Suspect(entity, source, container))
    return suspects


def object_of(scope: WorkspaceScope, urn: str, properties: Aspect) -> MlflowObject | None:
    """Return the object of an entity by its properties, if they lead to the URN that it has."""
    custom = properties.get(CUSTOM) or {}
    naming = scope.naming
    registered, version = custom.get(PropertyKey.REGISTERED_MODEL), custom.get(PropertyKey.VERSION)
    run_id, experiment_id = custom.get(PropertyKey.RUN_ID), custom.get(PropertyKey.EXPERIMENT_ID)
    model_id = custom.get(PropertyKey.MODEL_ID)
    with suppress(InvalidUrnError):
        if registered and version and naming.version(registered, version).urn == urn:
            return MlflowObject("version", registered, version)
        if registered and scope.registered_group(registered).urn == urn:
            return MlflowObject("registered", registered)
        if run_id and naming.model(run_id).urn == urn:
            return MlflowObject("run", run_id)
        if run_id and scope.options.process_instances and naming.process(run_id) == urn:
            return MlflowObject("run", run_id)
        if model_id and naming.model(model_id).urn == urn:
            return MlflowObject("logged_model", model_id)
        if experiment_id:
            as_named = Experiment(experiment_id, str(properties.get("name")))
            if scope.experiment_group(as_named).urn == urn:
                return MlflowObject("experiment", experiment_id)
    return None


def _listed(
    reader: Reader,
    kind: Kind,
    experiments: Mapping[str, Experiment],
    candidates: Sequence[_Suspect],
) -> Mapping[tuple[str, str], int | None]:
    """Return name and version of the objects of `kind` that MLflow lists, with their creation.

    Runs and logged models are asked for by their ids, which are not given again.
    """
    ids = list(experiments)
    pieces = [*map(tuple, chunks([one.source.name for one in candidates], IDS_A_LISTING))]
    match kind:
        case "experiment":
            return {(id_, ""): one.created_at_ms for id_, one in experiments.items()}
        case "run":
            runs = (reader.runs(ids, only=RunFilter(run_ids=piece)) for piece in pieces)
            return {(run.run_id, ""): None for pages in runs for page in pages for run in page}
        case "logged_model":
            wanted = (ModelFilter(model_ids=piece) for piece in pieces)
            models = (reader.logged_models(ids, only=only) for only in wanted)
            return {(one.model_id, ""): None for pages in models for page in pages for one in page}
        case "registered":
            registered = chain.from_iterable(reader.registered_models())
            return {(model.name, ""): model.created_at_ms for model in registered}
        case "version":
            versions = chain.from_iterable(reader.model_versions())
            return {(one.name, one.version): one.created_at_ms for one in versions}
