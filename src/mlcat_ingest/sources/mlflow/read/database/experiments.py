"""Experiments, the moment that identifies a store, and its workspaces."""

from sqlalchemy import select, union

from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.read.database.access import Database
from mlcat_ingest.sources.mlflow.read.database.runs import by_owner
from mlcat_ingest.sources.mlflow.read.database.tables import (
    EXPERIMENT_TAGS,
    EXPERIMENTS,
    WORKSPACES,
    in_workspace,
    plain,
)
from mlcat_ingest.sources.mlflow.read.decode import moment
from mlcat_ingest.sources.mlflow.values.records import Experiment


def load_experiments(database: Database, workspace: str | None) -> list[Experiment]:
    """Return all experiments of a workspace, in the order they were made.

    Cost: two statements.
    """
    listed = in_workspace(EXPERIMENTS, workspace)
    # The second key is that of MLflow's listing.
    order = (EXPERIMENTS.c.creation_time, EXPERIMENTS.c.experiment_id.desc())
    same = EXPERIMENT_TAGS.c.experiment_id == EXPERIMENTS.c.experiment_id
    tagged = select(*EXPERIMENT_TAGS.c).join_from(EXPERIMENT_TAGS, EXPERIMENTS, same)
    with database.page() as read:
        rows = read(select(*plain(EXPERIMENTS)).where(*listed).order_by(*order))
        tags = by_owner(read(tagged.where(*listed)))
    return [
        Experiment(
            str(experiment_id),
            name,
            place or None,
            stage or "active",
            moment(created),
            moment(updated),
            tags.get(experiment_id) or {},
        )
        for experiment_id, name, place, stage, created, updated in rows
    ]


def first_created_ms(database: Database, workspace: str | None) -> int | None:
    """Return when experiment 0 of a workspace was made; None where it is not known."""
    with database.page() as read:
        found = read(
            select(EXPERIMENTS.c.creation_time).where(
                EXPERIMENTS.c.experiment_id == 0, *in_workspace(EXPERIMENTS, workspace)
            )
        )
    return moment(found[0][0]) if found else None


def workspace_names(database: Database) -> tuple[str, ...]:
    """Return the names of all workspaces, `default` first, of a schema that has them."""
    # A server can keep its list of workspaces elsewhere.
    named = union(select(WORKSPACES.c.name), select(EXPERIMENTS.c.workspace))
    with database.page() as read:
        names = {name for (name,) in read(named)} | {DEFAULT_WORKSPACE}
    return tuple(sorted(names, key=lambda name: (name != DEFAULT_WORKSPACE, name)))
