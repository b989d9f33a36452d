"""From the address of a dataset to the catalog's platform and the dataset's name on it.

The spelling is that of the connectors which know the data itself: `<bucket>/<key>` for object
stores, `<database>.<schema>.<table>` for tables, the path for files. The rest of the
normalisation does not depend on the address: `normalise` of `datasets`.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("bigquery", "databricks", "mssql", "postgres", "presto"), 3),
        **dict.fromkeys(("redshift", "snowflake", "trino"), 3),
        **dict.fromkeys(("athena", "clickhouse", "glue", "hive", "mysql", "oracle"), 2),
        "sqlite": 1,
    }
)
"""Platforms of tables, and how many parts the full name of a table has there."""

DATABASES: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name for name in LEVELS}, "postgresql": "postgres", "sqlserver": "mssql"}
)
"""URI scheme, without a driver, to the platform of tables."""

_OBJECT_STORES: Final = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "adl"), "abs"),
}
_AZURE: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_AZURE_HOSTS: Final = (".blob.core.windows.net", ".dfs.core.windows.net")
_GOOGLE_HOSTS: Final = frozenset({"storage.googleapis.com", "storage.cloud.google.com"})
_GOOGLE_BUCKET: Final = ".storage.googleapis.com"
_HUB_HOSTS: Final = {
    "huggingface.co": "huggingface",
    **dict.fromkeys(("kaggle.com", "www.kaggle.com"), "kaggle"),
}
_HUB_VIEWS: Final = frozenset({"blob", "resolve", "tree", "viewer"})
_OF_MLFLOW: Final = ("runs:", "models:", "mlflow-artifacts:")
_OF_DATABASES: Final = ("jdbc:", *(f"{name}:" for name in DATABASES))
_SCHEME_ALONE: Final = ("file:", "dbfs:", "hdfs:", *_OF_DATABASES, *_OF_MLFLOW)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_ROOTED: Final = frozenset({"dbfs", "hdfs", "databricks"})

PLATFORMS: Final = frozenset(
    {
        *LEVELS,
        *("abs", "gcs", "s3", "dbfs", "file", "hdfs", "delta-lake", "iceberg"),
        *("couchbase", "http", "huggingface", "kafka", "kaggle", "kinesis"),
    }
)
"""Platforms of all datasets that MLflow, Feast and SageMaker tell of by themselves."""

Place = tuple[str, str]
"""Platform and name."""


class Uri(NamedTuple):
    """A URI taken apart; all parts are empty where it could not be."""

    scheme: str = ""
    host: str = ""
    path: str = ""


def split(uri: str | None) -> Uri:
    """Return scheme (no driver), host (no credentials) and path of `uri`.

    Its query may hold a secret, and is left out; so are the settings of a database after a `;`, and
    what has no host, such as the `thin:<user>/<password>@…` of Oracle's driver.
    """
    try:
        parts = urlsplit((uri or "").removeprefix("jdbc:"))
    except ValueError:
        return Uri()
    scheme = parts.scheme.lower().partition("+")[0]
    host, path = parts.netloc.rpartition("@")[2], parts.path
    if scheme in DATABASES:
        host = "" if ";" in parts.netloc else host
        path = path.partition(";")[0] if parts.netloc or path.startswith("/") else ""
    return Uri(scheme, host, path)


def place_of_uri(uri: str) -> Place | None:
    """Return platform and name of the dataset at `uri`, or None for what is no dataset."""
    if "://" not in uri and not uri.lower().startswith(_SCHEME_ALONE):
        return _local(uri)
    found = split(uri)
    rest = uri.partition("://")[2]
    if found.scheme in _OBJECT_STORES:
        # Keys may hold "?" and "#", which are no query and no fragment here.
        bucket, slash, key = rest.partition("/")
        name = f"{bucket.rpartition('@')[2]}{slash}{key}"
        return _place_of(_OBJECT_STORES[found.scheme], name)
    if found.scheme in _AZURE:
        container, at, _ = rest.partition("@")
        return _place_of("abs", f"{container}{found.path}") if at else None
    if found.scheme in DATABASES:
        platform = DATABASES[found.scheme]
        table = _table(platform, found)
        return None if table is None else _place_of(platform, table)
    of_scheme = _BY_SCHEME.get(found.scheme)
    return None if of_scheme is None else of_scheme(found)


def _table(platform: str, uri: Uri) -> str | None:
    """Return the name of a table whose address is all there is; the host may be its first part.

    None where it is the address of a server, with a port, and of no table in it.
    """
    names = [name for part in uri.path.split("/") for name in part.split(".") if name]
    if len(names) >= LEVELS[platform]:
        return ".".join(names)
    return None if ":" in uri.host or not uri.host else ".".join((uri.host, *names))


def _web(uri: Uri) -> Place | None:
    host, path = uri.host.lower(), uri.path
    if host.endswith(_AZURE_HOSTS):
        return _place_of("abs", unquote(path))
    if host in _GOOGLE_HOSTS:
        return _place_of("gcs", unquote(path))
    if host.endswith(_GOOGLE_BUCKET):
        return _place_of("gcs", f"{host.removesuffix(_GOOGLE_BUCKET)}{unquote(path)}")
    if host in _HUB_HOSTS and path.startswith("/datasets/"):
        return _hub(_HUB_HOSTS[host], path.removeprefix("/datasets/"))
    if host.endswith(".amazonaws.com"):
        bucket, dot, service = host.partition(".s3")
        if dot and service[:1] in {".", "-"}:
            return _place_of("s3", f"{bucket}{unquote(path)}")
        if host.startswith(("s3.", "s3-")):
            return _place_of("s3", unquote(path))
    return _place_of("http", f"{host}{path}")


def _hub(platform: str, path: str) -> Place | None:
    """Return the dataset `<owner>/<name>` of a hub, without its revision and files."""
    names = [name.partition("@")[0] for name in path.split("/") if name][:2]
    if names[1:] and names[1] in _HUB_VIEWS:
        del names[1]
    return _place_of(platform, "/".join(names))


def _hugging_face(uri: Uri) -> Place | None:
    return _hub("huggingface", uri.path) if uri.host == "datasets" else None


def _dbfs(path: str) -> Place | None:
    return _local(path) if path.startswith("/Volumes/") else _place_of("dbfs", path)


def _local(path: str) -> Place | None:
    if path.startswith("/Volumes/"):
        return _place_of("databricks", path)
    if path.startswith("/dbfs/"):
        return _dbfs(path.removeprefix("/dbfs"))
    if _DRIVE.match(path):
        path = f"/{path}".replace("\\", "/")
    name = path.rstrip("/") or path
    if not name.strip("./ "):
        return ("file", name) if name.startswith("/") else None
    # A relative path is another place than the absolute one, which loses its slash later.
    relative = not name.startswith(("/", "./", "../"))
    return ("file", f"./{name}" if relative else name)


def _place_of(platform: str, name: str) -> Place | None:
    bare = name.rstrip("/") if platform in _ROOTED else name.strip("/")
    return (platform, bare) if bare.strip() else None


_BY_SCHEME: Final[Mapping[str, Callable[[Uri], Place | None]]] = MappingProxyType(
    {
        **dict.fromkeys(("http", "https"), _web),
        "file": lambda uri: _local(unquote(uri.path)),
        "dbfs": lambda uri: _dbfs(uri.path),
        "hdfs": lambda uri: _place_of("hdfs", uri.path),
        "hf": _hugging_face,
        "kaggle": lambda uri: _hub("kaggle", f"{uri.host}{uri.path}"),
    }
)
