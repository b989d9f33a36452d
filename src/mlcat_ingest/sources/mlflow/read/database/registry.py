"""Registered models and their versions. Rows are joined in SQL, never by a name in Python.

MySQL compares names without case: a tag can carry another spelling of its model's name.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, TableClause, and_, select, tuple_

from mlcat_ingest.sources.mlflow.read.database.access import Database
from mlcat_ingest.sources.mlflow.read.database.runs import by_owner
from mlcat_ingest.sources.mlflow.read.database.tables import (
    MODEL_VERSION_TAGS,
    MODEL_VERSIONS,
    REGISTERED_MODEL_ALIASES,
    REGISTERED_MODEL_TAGS,
    REGISTERED_MODELS,
    in_workspace,
    plain,
)
from mlcat_ingest.sources.mlflow.read.decode import Aliases, model_id_of, moment, stage
from mlcat_ingest.sources.mlflow.values.names import PROMPT_TAG
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel

VERSIONS_A_PAGE: Final = 1_000

DELETED_STAGE: Final = "Deleted_Internal"
"""The stage by which MLflow marks a version as deleted; its listings leave it out."""


class ModelRegistry:
    """The registered models of one workspace, None where the schema has none."""

    def __init__(self, database: Database, workspace: str | None) -> None:
        """Contact nothing yet."""
        self._database = database
        self._workspace = workspace

    def registered_models(self) -> list[RegisteredModel]:
        """Return all registered models, prompts among them, by name.

        Cost: three statements.
        """
        models = REGISTERED_MODELS
        listed = in_workspace(models, self._workspace)
        tagged = self._joined(models, REGISTERED_MODEL_TAGS, "name")
        aliased = self._joined(models, REGISTERED_MODEL_ALIASES, "name")
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
            tagged = self._joined(versions, MODEL_VERSION_TAGS, "name", "version")
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
        statement = self._joined(MODEL_VERSIONS, tags, "name").where(
            *in_workspace(tags, self._workspace), tags.c.key == PROMPT_TAG
        )
        with self._database.page() as read:
            found = read(statement)
        # Looked at again, since MySQL compares without case.
        return frozenset(
            name for name, _, key, value in found if key == PROMPT_TAG and value == "true"
        )

    def _joined(self, owner: TableClause, table: TableClause, *key: str) -> Select[Any]:
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
