"""The feature_store.yaml of a feature repository as options: read as text, no code of it is run.

Source: `RepoConfig` of feast 0.67.
"""

import re
from collections.abc import Mapping
from os import environ
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.loader import MAX_BYTES, parse
from mlcat_ingest.recipe.problems import Origin
from mlcat_ingest.recipe.secrets import SECRETS, is_secret_name
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.recipe.values import PatternFilter, resolved_path
from mlcat_ingest.sources.feast.config import (
    DEFAULT_SCHEMAS,
    FeastConfig,
    RegistryConfig,
    TableDefaults,
    password_in,
)

FILE_NAME: Final = "feature_store.yaml"

_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{([^}]*)\})")

# What offline stores call the database and schema of tables that name none.
_OFFLINE: Final = {
    "athena": ("database", ""),
    "bigquery": ("project_id", "dataset"),
    "clickhouse": ("database", ""),
    "oracle": ("database", ""),
    "postgres": ("database", "db_schema"),
    "redshift": ("database", ""),
    "snowflake": ("database", "schema"),
    "trino": ("catalog", "dataset"),
}

_DEFAULT_REGISTRY: Final = "data/registry.db"
_BESIDE_REGISTRY: Final = {
    "ca_bundle": "cert",
    "client_cert": "client_cert",
    "client_key": "client_key",
}


def with_repo_options(config: FeastConfig) -> FeastConfig:
    """Return `config` with the options of its feature_store.yaml that the recipe leaves open.

    Raises:
        RecipeError: the file is needed and cannot be read, or does not name a registry.
        RecipeSyntaxError, RecipeValidationError: it is not YAML, or something in it cannot be used.
    """
    path = config.feature_store_yaml or _in_repo(config)
    if path is None:
        return config
    base_dir = config.repo_path or path.parent
    return _Repo(path, base_dir).complete(config)


def _in_repo(config: FeastConfig) -> Path | None:
    """Return the repository's own file; None where it neither exists nor is needed."""
    if config.repo_path is None:
        return None
    path = config.repo_path / FILE_NAME
    return path if config.registry is None or path.is_file() else None


class _Repo:
    """One feature_store.yaml; its relative paths start at the repository's folder."""

    def __init__(self, path: Path, base_dir: Path) -> None:
        parsed = parse(_content(path), str(path))
        self._origin = Origin(str(path), base_dir, parsed.lines)
        self._problems = parsed.problems
        self._data: Mapping[str, Any] = parsed.data if isinstance(parsed.data, dict) else {}

    def complete(self, config: FeastConfig) -> FeastConfig:
        """Return `config` with what it leaves open filled in."""
        update = self._registry(config) if config.registry is None else {}
        update["connections"] = {**self._connections(), **config.connections}
        project = self._text("project")
        if project and "projects" not in config.model_fields_set:
            update["projects"] = PatternFilter(allow=(f"{re.escape(project)}$",))
        if self._problems:
            raise self._origin.error(self._problems)
        return config.model_copy(update=update)

    def _registry(self, config: FeastConfig) -> dict[str, Any]:
        """Return the options that `registry:` stands for."""
        registry = self._data.get("registry", _DEFAULT_REGISTRY)
        if not isinstance(registry, Mapping):
            raw = {"path": self._text("registry") or _DEFAULT_REGISTRY}
            return {"registry": self._valid(raw)}
        # A database is read where Feast reads it.
        path = self._text("registry", "read_path") or self._text("registry", "path")
        raw = {"registry_type": self._text("registry", "registry_type"), "path": path}
        options: dict[str, Any] = {"registry": self._valid(raw)}
        for ours, theirs in _BESIDE_REGISTRY.items():
            if getattr(config, ours) is None and (pem := self._text("registry", theirs)):
                options[ours] = resolved_path(Path(pem), self._origin.base_dir)
        if config.authority is None:
            options["authority"] = self._text("registry", "authority") or None
        if config.verify is None and registry.get("is_tls") is True:
            options["verify"] = True
        return options

    def _valid(self, raw: Mapping[str, str | None]) -> RegistryConfig | None:
        given = {key: text for key, text in raw.items() if text}
        config, problems = validate_config(RegistryConfig, given, ("registry",), self._origin)
        self._problems.extend(problems)
        if config is not None and (password := password_in(config.path)):
            SECRETS.add(password)
        return config

    def _connections(self) -> dict[str, TableDefaults]:
        """Return database and schema of the offline store, for tables that name none."""
        store = self._data.get("offline_store")
        kind = store.get("type") if isinstance(store, Mapping) else store
        platform = str(kind).partition(".")[0]
        if platform not in _OFFLINE:
            return {}
        database, schema = _OFFLINE[platform]
        defaults = TableDefaults(
            database=self._text("offline_store", database) or None,
            schema_name=self._text("offline_store", schema) or DEFAULT_SCHEMAS.get(platform),
        )
        return {platform: defaults}

    def _text(self, *loc: str) -> str:
        """Return the text at `loc` with its variables replaced, empty where there is none."""
        value: Any = self._data
        for step in loc:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is None or isinstance(value, Mapping | list):
            return ""

        def substitute(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            if name in environ:
                if is_secret_name(name):
                    SECRETS.add(environ[name])
                return environ[name]
            if match[2]:
                self._problems.append(self._origin.problem(loc, f"the variable {name} is not set"))
            # Feast leaves it too; it may well be part of a password.
            return match[0]

        return _VARIABLE.sub(substitute, str(value)).strip()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecipeError(
            f"cannot read Feast's file {path}: {error.strerror}",
            hint="set `registry`, or correct `repo_path` or `feature_store_yaml` in the recipe",
        ) from None
