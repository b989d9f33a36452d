"""Finds entities that MLflow deleted or renamed, as candidates for a soft delete.

The listings of a complete pass lacked them. Listing is no proof: a server that checks permissions
leaves out what we may not see. So a run is looked for by its id in bulk, and whatever is still
missing can be asked for by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    Kind,
    ModelFilter,
    Reader,
    RunFilter,
    Thing,
)
from mlcat_ingest.sources.mlflow.values.joined import WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import Experiment, OwnKey

_CUSTOM: Final = "customProperties"
_PROCESS: Final = "dataProcessInstance"
_KINDS: Final[tuple[Kind, ...]] = ("experiment", "run", "logged_model", "registered", "version")


class _Suspect(NamedTuple):
    """An entity and the thing that it was made from."""

    urn: str
    thing: Thing


def find_missing(
    reader: Reader, scope: WorkspaceScope, unlisted: Sequence[Unlisted], *, tables_listed: bool
) -> Iterator[Missing]:
    """Yield those of `unlisted` that MLflow does not hold, or not under this name.

    MLflow has no feature tables of signatures to ask for: one goes where `tables_listed` says that
    the pass listed all that there are, and once the next one lacks it, too.

    An entity that this naming would not have made is nobody's proof, and is left out.

    Cost: one listing of runs, or of logged models, for each 100 of their entities; the listings of
    experiments, registered models and versions where entities of theirs are among `unlisted`.
    """
    yield from _switched_off(scope, unlisted)
    yield from _tables(scope, unlisted, all_listed=tables_listed)
    suspects = _suspects(scope, unlisted)
    experiments = {one.experiment_id: one for page in reader.experiments() for one in page}
    for kind in _KINDS:
        candidates = suspects.get(kind, ())
        listed = _listed_keys(reader, kind, list(experiments), candidates) if candidates else set()
        for urn, thing in candidates:
            if (thing.name, thing.version) not in listed:
                yield Missing(urn, partial(reader.is_gone, thing))
            elif kind == "experiment":
                group = scope.experiment_group(experiments[thing.name]).urn
                if group != urn:
                    yield Missing(urn, lambda: True, moved_to=group)


def _switched_off(scope: WorkspaceScope, unlisted: Sequence[Unlisted]) -> Iterator[Missing]:
    for one in unlisted:
        if entity_type_of(one.urn) == _PROCESS and not scope.options.process_instances:
            yield Missing(one.urn, lambda: True, switched_off=True)


def _suspects(
    scope: WorkspaceScope, unlisted: Sequence[Unlisted]
) -> Mapping[str, Sequence[_Suspect]]:
    suspects: dict[str, list[_Suspect]] = {}
    for one in unlisted:
        thing = _thing(scope, one)
        if thing is not None:
            suspects.setdefault(thing.kind, []).append(_Suspect(one.urn, thing))
    return suspects


def _tables(
    scope: WorkspaceScope, unlisted: Sequence[Unlisted], *, all_listed: bool
) -> Iterator[Missing]:
    links = scope.options.links
    if links is None:
        return  # the links to their features stay, too
    for one in unlisted:
        if OwnKey.SIGNATURE_OF not in (one.properties.get(_CUSTOM) or {}):
            continue
        if not links.from_signature:
            yield Missing(one.urn, lambda: True, switched_off=True)
        elif all_listed:
            yield Missing(one.urn, lambda: True, second_pass=True)


def _thing(scope: WorkspaceScope, one: Unlisted) -> Thing | None:
    """Return what an entity was made from, by what stands on it and if its URN says the same."""
    custom = one.properties.get(_CUSTOM) or {}
    naming = scope.naming
    registered, version = custom.get(OwnKey.REGISTERED_MODEL), custom.get(OwnKey.VERSION)
    run_id, experiment_id = custom.get(OwnKey.RUN_ID), custom.get(OwnKey.EXPERIMENT_ID)
    model_id = custom.get(OwnKey.MODEL_ID)
    try:
        if registered and version and naming.version(registered, version).urn == one.urn:
            return Thing("version", registered, version)
        if registered and scope.registered_group(registered).urn == one.urn:
            return Thing("registered", registered)
        if run_id and one.urn in _urns_of_run(scope, run_id):
            return Thing("run", run_id)
        if model_id and naming.model(model_id).urn == one.urn:
            return Thing("logged_model", model_id)
        if experiment_id and _group_as_named(scope, one.properties, experiment_id) == one.urn:
            return Thing("experiment", experiment_id)
    except InvalidUrnError:
        return None
    return None


def _urns_of_run(scope: WorkspaceScope, run_id: str) -> Iterator[str]:
    yield scope.naming.model(run_id).urn
    if scope.options.process_instances:
        yield scope.naming.process(run_id)


def _group_as_named(scope: WorkspaceScope, properties: Aspect, experiment_id: str) -> str:
    """Return the URN of the group of an experiment that was called what the entity is called."""
    return scope.experiment_group(Experiment(experiment_id, str(properties.get("name")))).urn


def _listed_keys(
    reader: Reader, kind: Kind, experiment_ids: list[str], candidates: Sequence[_Suspect]
) -> set[tuple[str, str]]:
    """Return name and version of the things of `kind` that MLflow lists.

    Runs and logged models are asked for by their ids.
    """
    match kind:
        case "experiment":
            return {(one, "") for one in experiment_ids}
        case "run" | "logged_model":
            ids = chunks([one.thing.name for one in candidates], IDS_A_LISTING)
            find = _run_ids if kind == "run" else _model_ids
            return {(one, "") for some in ids for one in find(reader, experiment_ids, some)}
        case "registered":
            return {(one.name, "") for page in reader.registered_models() for one in page}
        case "version":
            return {(one.name, one.version) for page in reader.model_versions() for one in page}


def _run_ids(reader: Reader, experiment_ids: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    for page in reader.runs(experiment_ids, only=RunFilter(run_ids=tuple(wanted))):
        yield from (run.run_id for run in page)


def _model_ids(
    reader: Reader, experiment_ids: Sequence[str], wanted: Sequence[str]
) -> Iterator[str]:
    for page in reader.logged_models(experiment_ids, only=ModelFilter(model_ids=tuple(wanted))):
        yield from (model.model_id for model in page)
