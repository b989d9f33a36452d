"""Experiments, workspaces, registered models and versions, all listed as a whole.

Rows are joined in SQL, never by a name in Python.

MySQL compares names without case: a tag can carry another spelling of its model's name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    TableClause,
    and_,
    literal,
    select,
    tuple_,
    union,
)

from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.read.database.access import Database
from mlcat_ingest.sources.mlflow.read.database.runs import by_owner
from mlcat_ingest.sources.mlflow.read.database.tables import (
    EXPERIMENT_TAGS,
    EXPERIMENTS,
    LOGGED_MODELS,
    MODEL_VERSION_TAGS,
    MODEL_VERSIONS,
    REGISTERED_MODEL_ALIASES,
    REGISTERED_MODEL_TAGS,
    REGISTERED_MODELS,
    RUNS,
    WORKSPACES,
    in_workspace,
    plain,
)
from mlcat_ingest.sources.mlflow.read.decode import Aliases, model_id_of, moment, stage
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject
from mlcat_ingest.sources.mlflow.values.records import (
    PROMPT_TAG,
    Experiment,
    ModelVersion,
    RegisteredModel,
)

VERSIONS_A_PAGE: Final = 1_000

DELETED_STAGE: Final = "Deleted_Internal"
"""The stage by which MLflow marks a version as deleted; its listings leave it out."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_TABLES: Final = {
    "run": (RUNS, RUNS.c.run_uuid),
    "experiment": (EXPERIMENTS, EXPERIMENTS.c.experiment_id),
    "registered": (REGISTERED_MODELS, REGISTERED_MODELS.c.name),
    "version": (MODEL_VERSIONS, MODEL_VERSIONS.c.name),
    "logged_model": (LOGGED_MODELS, LOGGED_MODELS.c.model_id),
}


class ModelRegistry:
    """The registered models of one workspace, None where the schema has none."""

    def __init__(self, database: Database, workspace: str | None) -> None:
        """Read from `database`."""
        self._database = database
        self._workspace = workspace

    def registered_models(self) -> list[RegisteredModel]:
        """Return all registered models, prompts among them, by name.

        Cost: three statements.
        """
        models = REGISTERED_MODELS
        listed = in_workspace(models, self._workspace)
        tagged = self._select_tags(models, REGISTERED_MODEL_TAGS, "name")
        aliased = self._select_tags(models, REGISTERED_MODEL_ALIASES, "name")
        with self._database.page() as read:
            rows = read(select(*plain(models)).where(*listed).order_by(models.c.name))
            tags = by_owner(read(tagged.where(*listed)))
            aliases = read(aliased.where(*listed))
        versions: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name, alias, version in aliases:
            versions[name][alias] = str(version)
        return [
            RegisteredModel(
                name,
                description or None,
                moment(created),
                moment(updated),
                tags.get(name) or {},
                versions.get(name) or {},
            )
            for name, description, created, updated in rows
        ]

    def model_versions(self, aliases: Aliases) -> Iterator[list[ModelVersion]]:
        """Yield all versions in pages, by name and number, with the aliases of their models.

        As in MLflow's listing, none comes of a name that has a prompt among its versions.

        Cost: two statements a page, and one.
        """
        versions = MODEL_VERSIONS
        order = (versions.c.name, versions.c.version)
        number = tuple_(*order)
        listed = [
            *in_workspace(versions, self._workspace),
            versions.c.current_stage != DELETED_STAGE,
        ]
        prompts = self._names_of_prompts()
        beyond: list[ColumnElement[bool]] = []
        while True:
            page = select(*plain(versions)).where(*listed, *beyond)
            tagged = self._select_tags(versions, MODEL_VERSION_TAGS, "name", "version")
            with self._database.page() as read:
                rows = read(page.order_by(*order).limit(VERSIONS_A_PAGE))
                if not rows:
                    return
                last = tuple_(*rows[-1][:2])
                found = read(tagged.where(*listed, *beyond, number <= last))
            tags = by_owner((row[:2], *row[2:]) for row in found)
            yield [
                _version(row, tags.get(row[:2]) or {}, aliases)
                for row in rows
                if row[0] not in prompts
            ]
            beyond = [number > last]

    def _names_of_prompts(self) -> frozenset[str]:
        tags = MODEL_VERSION_TAGS
        statement = self._select_tags(MODEL_VERSIONS, tags, "name").where(
            *in_workspace(tags, self._workspace), tags.c.key == PROMPT_TAG
        )
        with self._database.page() as read:
            found = read(statement)
        # Looked at again, since MySQL compares without case.
        return frozenset(
            name for name, _, key, value in found if key == PROMPT_TAG and value == "true"
        )

    def _select_tags(self, owner: TableClause, table: TableClause, *key: str) -> Select[Any]:
        """Return a statement for the rows of `table` with the key as their owner spells it."""
        same = [owner.c[name] == table.c[name] for name in key]
        if self._workspace is not None:
            same.append(owner.c.workspace == table.c.workspace)
        rest = [column for column in plain(table) if column.name not in key]
        return select(*(owner.c[name] for name in key), *rest).join_from(owner, table, and_(*same))


def _version(row: tuple[Any, ...], tags: dict[str, str], aliases: Aliases) -> ModelVersion:
    name, number, run_id, source, current, status, description, user_id, created, updated = row
    return ModelVersion(
        name=name,
        version=str(number),
        run_id=run_id or None,
        source=source or None,
        model_id=model_id_of(source),
        stage=stage(current),
        status=status or None,
        description=description or None,
        user_id=user_id or None,
        created_at_ms=moment(created),
        last_updated_at_ms=moment(updated),
        aliases=aliases.of(name, str(number)),
        tags=tags,
    )


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


def is_there(database: Database, target: MlflowObject, workspace: str | None) -> bool:
    """Return whether `target` has a row; a run's workspace is that of its experiment.

    Cost: one statement.
    """
    table, name = _TABLES[target.kind]
    conditions = [name == (_number(target.name) if target.kind == "experiment" else target.name)]
    if target.version:
        versions = MODEL_VERSIONS.c
        conditions.append(versions.version == _number(target.version))
        conditions.append(versions.current_stage != DELETED_STAGE)
    if table is LOGGED_MODELS:
        conditions.append(LOGGED_MODELS.c.lifecycle_stage != "deleted")
    if "workspace" in table.c:
        conditions.extend(in_workspace(table, workspace))
    with database.page() as read:
        return bool(read(select(literal(1)).select_from(table).where(*conditions)))


def _number(text: str) -> int:
    """Return an id as the number it is stored as; -1, which nothing has, for any other text."""
    return int(text) if _NUMBER.fullmatch(text) else -1
