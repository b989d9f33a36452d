"""Which entities MLflow has nothing behind any more, and which go by another name now.

The listings of a complete pass lacked them. Listing is no proof: a server that checks permissions
leaves out what we may not see. So a run is looked for by its id in bulk, and whatever is still
missing can be asked for by name.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, Reader, RunFilter, Thing
from mlcat_ingest.sources.mlflow.values.joined import WorkspaceScope
from mlcat_ingest.sources.mlflow.values.names import OwnKey
from mlcat_ingest.sources.mlflow.values.records import Experiment, Run

_CUSTOM: Final = "customProperties"


class _Suspect(NamedTuple):
    """An entity and the thing that it was made from."""

    urn: str
    thing: Thing


def missing(
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
    experiments = [one for page in reader.experiments() for one in page]
    ids = [one.experiment_id for one in experiments]
    yield from _experiments(reader, scope, experiments, suspects.get("experiment", ()))
    yield from _runs(reader, ids, suspects.get("run", ()))
    models, versions = suspects.get("registered", ()), suspects.get("version", ())
    if models:
        names = {(one.name, "") for page in reader.registered_models() for one in page}
        yield from _unlisted(reader, names, models)
    if versions:
        names = {(one.name, one.version) for page in reader.model_versions() for one in page}
        yield from _unlisted(reader, names, versions)


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


def _gone(reader: Reader, urn: str, thing: Thing) -> Missing:
    return Missing(urn, lambda: reader.is_gone(thing))


def _unlisted(
    reader: Reader, listed: Collection[tuple[str, str]], suspects: Sequence[_Suspect]
) -> Iterator[Missing]:
    for urn, thing in suspects:
        if (thing.name, thing.version) not in listed:
            yield _gone(reader, urn, thing)


def _experiments(
    reader: Reader,
    scope: WorkspaceScope,
    listed: Sequence[Experiment],
    suspects: Sequence[_Suspect],
) -> Iterator[Missing]:
    """Yield groups whose experiment is not listed, or is listed under another name."""
    by_id = {one.experiment_id: one for one in listed}
    for urn, thing in suspects:
        found = by_id.get(thing.name)
        if found is None:
            yield _gone(reader, urn, thing)
            continue
        group = scope.experiment_group(found).urn
        if group != urn:
            yield Missing(urn, lambda: True, moved_to=group)


def _runs(reader: Reader, ids: Sequence[str], suspects: Sequence[_Suspect]) -> Iterator[Missing]:
    there = {run.run_id for run in _found(reader, ids, [one.thing.name for one in suspects])}
    for urn, thing in suspects:
        if thing.name not in there:
            yield _gone(reader, urn, thing)


def _found(reader: Reader, ids: Sequence[str], run_ids: Sequence[str]) -> Iterator[Run]:
    for some in chunks(run_ids, IDS_A_LISTING):
        for page in reader.runs(ids, only=RunFilter(run_ids=tuple(some))):
            yield from page
