"""The configuration of the Feast source, and its defaults in a feature_store.yaml. Cheap to import.

feature_store.yaml is read as text; no code of the repository is run.

Source: `RepoConfig` of feast 0.67.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from os import environ
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from mlcat_ingest.core.redaction import user_info
from mlcat_ingest.recipe.connection import ConnectionConfig, Timeout
from mlcat_ingest.recipe.fields import (
    NotContent,
    PublicStr,
    PublicUrl,
    RecipeModel,
    ServiceUrl,
    checked_text,
    named,
)
from mlcat_ingest.recipe.loader import read_file
from mlcat_ingest.recipe.secrets import SECRETS, is_secret_name
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.recipe.values import (
    PatternFilter,
    RecipePath,
    base_dir_of,
    resolved_path,
    resolved_url,
)
from mlcat_ingest.sources.datasets import (
    LEVELS,
    DatasetsConfig,
    KnownDatasets,
    Platform,
    check_among,
)
from mlcat_ingest.sources.options import FeatureStoreConfig

RegistryType = Literal["file", "sql", "remote"]
RegistryKind = Literal["file", "s3", "object", "sql", "remote"]

_SERVER: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)(\+[A-Za-z0-9_]+)?:")
_DATABASES: Final = frozenset(
    {"sqlite", "postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle"}
)
_S3: Final = frozenset({"s3", "s3a", "s3n"})
_AZURE: Final = ".blob.core.windows.net"
_OVER_GRPC: Final = (
    "serve the registry with `feast serve_registry` and set `registry_type: remote` and "
    "`path: host:6570`"
)

DEFAULT_SCHEMAS: Final = {"postgres": "public", "redshift": "public", "snowflake": "PUBLIC"}
"""The schema that Feast takes by platform where only the database is named."""

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


def _address(text: str, info: ValidationInfo) -> str:
    # A server's name without a port is no path, if its type is given.
    if kind_of(checked_text(text), info.data.get("registry_type")) == "remote":
        return text
    parts = urlsplit(text)
    if parts.scheme in {"http", "https"} and not (parts.hostname or "").endswith(_AZURE):
        raise ValueError(f"is not read over HTTP: {_OVER_GRPC}")
    return resolved_url(text, base_dir_of(info))


RegistryAddress = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(_address),
    PublicUrl(),
]
"""The address of a registry; relative paths and sqlite files start at the recipe's folder."""


def kind_of(address: str, named: RegistryType | None = None) -> RegistryKind:
    """Return the kind of the registry at `address`, by the type that Feast names, if any."""
    if named is not None and named != "file":
        return named
    scheme = _SCHEME.match(address)
    if scheme is None or _SERVER.fullmatch(address):
        return "remote" if _SERVER.fullmatch(address) and named is None else "file"
    name = scheme[1].lower()
    if name in _DATABASES or (scheme[2] and named is None):
        return "sql"
    if name in {"grpc", "grpcs"}:
        return "remote"
    if name in _S3:
        return "s3"
    return "file" if name == "file" or "://" not in address else "object"


def _type(named: Any) -> Any:
    if isinstance(named, str) and named.startswith("snowflake"):
        raise ValueError(
            f"is not supported: {_OVER_GRPC}, or write "
            "`store.registry.proto().SerializeToString()` to a file"
        )
    if named == "rest":
        raise ValueError(f"is not supported: {_OVER_GRPC}")
    return named


def _as_mapping(given: Any) -> Any:
    return {"path": given} if isinstance(given, str) else given


class RegistryConfig(RecipeModel):
    """A registry, in the keys of `registry:` in Feast's own feature_store.yaml."""

    key_hints: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            (
                *("cache_ttl_seconds", "cache_mode", "purge_feast_metadata"),
                *("s3_additional_kwargs", "sqlalchemy_config_kwargs"),
            ),
            "is an option of Feast itself; delete it",
        ),
        "registry_store_type": "follows from the address here; delete it",
        "read_path": "is `path` here: nothing is written",
        "is_tls": "is `verify: true` beside `registry` here",
        "cert": "is `ca_bundle` beside `registry` here",
        "client_cert": "is set beside `registry` here",
        "client_key": "is set beside `registry` here",
        "authority": "is set beside `registry` here",
    }

    registry_type: Annotated[RegistryType | None, BeforeValidator(_type)] = None
    """The kind of registry: `file` (object stores too), `sql` or `remote` (gRPC). Default: follows
    from `path`."""

    path: RegistryAddress
    """The registry's location: path of a file, address in an object store, SQLAlchemy URL of a
    database, or address of a registry server. Object stores are `s3://`, `gs://`, `az://`,
    `https://<account>.blob.core.windows.net/…` and other schemes of fsspec. A registry server is
    `host:port` (gRPC) or `grpcs://host:port` (gRPC with TLS)."""

    @property
    def kind(self) -> RegistryKind:
        """Return what reads it."""
        return kind_of(self.path, self.registry_type)


class S3Config(RecipeModel):
    """Connection to S3. Default: boto3's own settings from the environment."""

    endpoint_url: ServiceUrl | None = None
    """Address of an S3-compatible service. Default: the variable FEAST_S3_ENDPOINT_URL, else
    boto3's own setting."""

    region: PublicStr | None = None
    """Region of the bucket."""

    profile: PublicStr | None = None
    """Profile of the AWS configuration files."""


class TableDefaults(RecipeModel):
    """Database and schema of tables that Feast's registry names without them."""

    database: PublicStr | None = None
    """The database (catalog, BigQuery project) of tables that name none."""

    schema_name: PublicStr | None = named("schema", "schema_name")
    """The schema (BigQuery dataset) of tables that name none."""


class FeastConfig(FeatureStoreConfig, ConnectionConfig):
    """A Feast registry, in any of the places where Feast keeps one."""

    # What DataHub's own feast source calls otherwise, or does and this one does not.
    key_hints: ClassVar[Mapping[str, str]] = {
        "path": "is `repo_path` here",
        "fs_yaml_file": "is `feature_store_yaml` here",
        "environment": "is `env` here",
        "owner_mappings": "is `owners.map` here: {name in Feast: user or URN}",
        "enable_owner_extraction": "cannot be set: owners are always read; delete it",
        "enable_tag_extraction": "cannot be set: tags are always read; delete it",
        "project": "is `projects` here: {allow: [name]}",
        "registry_type": "belongs in `registry`: {registry_type: …, path: …}",
    }

    registry: (
        Annotated[
            RegistryConfig,
            BeforeValidator(_as_mapping, json_schema_input_type=RegistryConfig | str),
            PublicUrl(),
        ]
        | None
    ) = None
    """The registry: an address, or `path` and `registry_type` as in feature_store.yaml.
    Default: the registry of feature_store.yaml."""

    repo_path: RecipePath | None = None
    """Folder of the feature repository; relative paths of data files start there. If it has a
    feature_store.yaml, that file supplies defaults for `project`, `registry` and the
    `offline_store`'s database and schema. Only this file is read; no code is run."""

    feature_store_yaml: RecipePath | None = None
    """Path of Feast's configuration file. Default: feature_store.yaml in `repo_path`. As in Feast,
    `$VAR` and `${VAR}` in its values are replaced by environment variables; an unset variable in a
    value that is used is an error."""

    projects: PatternFilter = PatternFilter()
    """The projects of the registry to read, by name. Default: the `project` of
    feature_store.yaml, else all."""

    datasets: KnownDatasets = DatasetsConfig()
    """How the catalog names the source datasets of features."""

    label_views: bool = False
    """Also make feature tables of label views. Label views hold labels, not features."""

    connections: dict[Platform, TableDefaults] = Field(default_factory=dict)
    """By platform, such as `snowflake`: database and schema of tables that Feast's registry names
    without them. Default: those of the `offline_store` in feature_store.yaml."""

    spark_platform: Literal["hive", "databricks"] = "hive"
    """The platform of Spark's tables."""

    kinesis_region: bool = False
    """Prefix a Kinesis stream's name with its region (`region:stream`), as DataHub's own feast
    source does."""

    verify: Annotated[bool | None, NotContent()] = None
    """`true` enables TLS for a registry server at `host:port`, as do `grpcs://`, `ca_bundle` and
    `client_cert`. The certificate is always verified; `false` is an error."""

    authority: Annotated[PublicStr | None, NotContent()] = None
    """The name in a gRPC server's certificate, if it differs from the name in the address."""

    s3: Annotated[S3Config, NotContent()] = S3Config()
    """Connection to S3."""

    storage_options: Annotated[dict[PublicStr, SecretStr], NotContent()] = Field(
        default_factory=dict
    )
    """Options of the fsspec back end for other object stores, such as `account_name` and
    `account_key`. Their values are secrets."""

    timeout_s: Timeout = 120.0
    """Seconds to wait for an answer; for a database, the time limit of one statement."""

    max_bytes: Annotated[int, NotContent()] = Field(default=1024**3, ge=1024)
    """Maximum size of a registry in bytes: of its file, or of all its objects together."""

    @model_validator(mode="after")
    def _options_apply(self) -> Self:
        check_among(self.connections, LEVELS, "`connections`", "has no databases or schemas")
        if self.registry is None and self.repo_path is None and self.feature_store_yaml is None:
            raise ValueError(
                "set `registry`, or set `repo_path` to a folder with a feature_store.yaml"
            )
        return self


def with_repo_options(config: FeastConfig) -> FeastConfig:
    """Return `config` with the options of its feature_store.yaml that the recipe leaves open.

    Raises:
        RecipeError: the file is needed and cannot be read, or does not name a registry.
        RecipeSyntaxError, RecipeValidationError: it is not YAML, or something in it cannot be used.
    """
    path = config.feature_store_yaml
    if path is None and config.repo_path is not None:
        path = config.repo_path / FILE_NAME
        if config.registry is not None and not path.is_file():
            path = None
    return config if path is None else _Repo(path, config.repo_path or path.parent).complete(config)


class _Repo:
    """One feature_store.yaml; its relative paths start at the repository's folder."""

    def __init__(self, path: Path, base_dir: Path) -> None:
        hint = "set `registry`, or correct `repo_path` or `feature_store_yaml` in the recipe"
        draft = read_file(path, "file of Feast", hint)
        self._origin = replace(draft.origin, base_dir=base_dir)
        self._problems = [*draft.problems]
        self._data: Mapping[str, Any] = draft.data if isinstance(draft.data, dict) else {}

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
        if config.verifies is None and registry.get("is_tls") is True:
            options["verify"] = True
        return options

    def _valid(self, raw: Mapping[str, str | None]) -> RegistryConfig | None:
        given = {key: text for key, text in raw.items() if text}
        config, problems = validate_config(RegistryConfig, given, ("registry",), self._origin)
        self._problems.extend(problems)
        if config is not None and (password := user_info(config.path)[1]):
            SECRETS.add(unquote(password))
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
