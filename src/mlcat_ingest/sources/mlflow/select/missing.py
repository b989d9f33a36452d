"""Finds entities that MLflow deleted or renamed, as candidates for a soft delete.

The listings of a complete pass lacked them. Listing is no proof: a server that checks permissions
leaves out what we may not see. So a run is looked for by its id in bulk, and whatever is still
missing can be asked for by name.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, Kind, Reader, RunFilter, Thing
from mlcat_ingest.sources.mlflow.values.joined import WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import Experiment, OwnKey

_CUSTOM: Final = "customProperties"
_KINDS: Final[tuple[Kind, ...]] = ("experiment", "run", "registered", "version")


class _Suspect(NamedTuple):
    """An entity and the thing that it was made from."""

    urn: str
    thing: Thing


def find_missing(
    reader: Reader, scope: WorkspaceScope, unlisted: Sequence[Unlisted]
) -> Iterator[Missing]:
    """Yield those of `unlisted` that MLflow does not hold, or not under this name.

    An entity that this naming would not have made is nobody's proof, and is left out.

    Cost: one listing of runs for each 100 of their models; the listings of experiments, models and
    versions where entities of theirs are among `unlisted`.
    """
    suspects: dict[str, list[_Suspect]] = {}
    for one in unlisted:
        thing = _thing(scope, one)
        if thing is not None:
            suspects.setdefault(thing.kind, []).append(_Suspect(one.urn, thing))
    experiments = {one.experiment_id: one for page in reader.experiments() for one in page}
    for kind in _KINDS:
        candidates = suspects.get(kind, [])
        listed = _listed_keys(reader, kind, list(experiments), candidates) if candidates else set()
        for urn, thing in candidates:
            if (thing.name, thing.version) not in listed:
                yield Missing(urn, partial(reader.is_gone, thing))
            elif kind == "experiment":
                group = scope.experiment_group(experiments[thing.name]).urn
                if group != urn:
                    yield Missing(urn, lambda: True, moved_to=group)


def _thing(scope: WorkspaceScope, one: Unlisted) -> Thing | None:
    """Return what an entity was made from, by what stands on it and if its URN says the same."""
    custom = one.properties.get(_CUSTOM) or {}
    naming = scope.naming
    registered, version = custom.get(OwnKey.REGISTERED_MODEL), custom.get(OwnKey.VERSION)
    run_id, experiment_id = custom.get(OwnKey.RUN_ID), custom.get(OwnKey.EXPERIMENT_ID)
    try:
        if registered and version and naming.version(registered, version).urn == one.urn:
            return Thing("version", registered, version)
        if registered and scope.registered_group(registered).urn == one.urn:
            return Thing("registered", registered)
        if run_id and naming.model(run_id).urn == one.urn:
            return Thing("run", run_id)
        if experiment_id and _group_as_named(scope, one.properties, experiment_id) == one.urn:
            return Thing("experiment", experiment_id)
    except InvalidUrnError:
        return None
    return None


def _group_as_named(scope: WorkspaceScope, properties: Aspect, experiment_id: str) -> str:
    """Return the URN of the group of an experiment that was called what the entity is called."""
    return scope.experiment_group(Experiment(experiment_id, str(properties.get("name")))).urn


def _listed_keys(
    reader: Reader, kind: Kind, experiment_ids: list[str], candidates: Sequence[_Suspect]
) -> set[tuple[str, str]]:
    """Return name and version of the things of `kind` that MLflow lists, runs only by their ids."""
    match kind:
        case "experiment":
            return {(one, "") for one in experiment_ids}
        case "run":
            found: set[tuple[str, str]] = set()
            for some in chunks([one.thing.name for one in candidates], IDS_A_LISTING):
                for page in reader.runs(experiment_ids, only=RunFilter(run_ids=tuple(some))):
                    found.update((run.run_id, "") for run in page)
            return found
        case "registered":
            return {(one.name, "") for page in reader.registered_models() for one in page}
        case "version":
            return {(one.name, one.version) for page in reader.model_versions() for one in page}
