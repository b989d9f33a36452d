"""Where a dataset is: from the source that MLflow logged to a platform and a name on it.

The spelling is that of the connectors which know the data itself: `<bucket>/<key>` for object
stores, `<database>.<schema>.<table>` for tables, the path for files.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

# URI scheme to catalog platform, where the name is `<bucket>/<key>`.
_OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gcs", "gcs": "gcs"}
_AZURE: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_AZURE_HOSTS: Final = (".blob.core.windows.net", ".dfs.core.windows.net")
_DATABASES: Final = {
    "athena": "athena",
    "bigquery": "bigquery",
    "clickhouse": "clickhouse",
    "databricks": "databricks",
    "hive": "hive",
    "mssql": "mssql",
    "mysql": "mysql",
    "oracle": "oracle",
    "postgres": "postgres",
    "postgresql": "postgres",
    "redshift": "redshift",
    "snowflake": "snowflake",
    "sqlite": "sqlite",
    "trino": "trino",
}
_UC_PARTS: Final = 3
_Place = tuple[str, str]


def json_object(text: str | None) -> Mapping[str, Any]:
    """Return the JSON object that `text` holds; an empty one for anything else."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def place_of(source_type: str, source: str) -> _Place | None:
    """Return platform and name of the dataset that a logged source tells, or None.

    Source: `DatasetSource.to_json` of MLflow 3.17's dataset sources (file systems and object
    stores, http, delta_table, spark, hugging_face, uc_volume), and plain URIs.
    """
    facts = json_object(source)
    kind = source_type.lower()
    if kind in {"hugging_face", "huggingface"}:
        path = _text(facts, "path")
        return ("huggingface", path) if path else None
    table = _text(facts, "delta_table_name", "table_name", "table", "table_fqn")
    uri = _text(facts, "uri", "url", "path", "s3_uri")
    if not facts and not source.lstrip().startswith(("{", "[", '"')):
        uri = source.strip()
    if table:
        return _table_place(kind, table, facts, uri)
    if not uri:
        return None
    place = place_of_uri(uri)
    if place is not None and kind == "delta_table" and place[0] not in {"databricks", "dbfs"}:
        return ("delta-lake", place[1])
    return place


def _text(facts: Mapping[str, Any], *keys: str) -> str | None:
    return next((v.strip() for k in keys if isinstance(v := facts.get(k), str) and v.strip()), None)


def _table_place(kind: str, table: str, facts: Mapping[str, Any], uri: str | None) -> _Place:
    scheme = _split(uri).scheme.partition("+")[0]
    platform = _DATABASES.get(kind) or _DATABASES.get(scheme)
    parts = [part.strip('`"') for part in table.split(".")]
    if platform is None:
        # A table that Spark or Delta names: three levels are a catalog, two the metastore.
        unity = facts.get("is_databricks_uc_table") is True or len(parts) == _UC_PARTS
        return ("databricks" if unity else "hive", ".".join(parts))
    if len(parts) < _UC_PARTS:
        schema = _text(facts, "schema") if len(parts) == 1 else None
        database = _text(facts, "database", "catalog", "project") or _split(uri).path.strip("/")
        parts = [part for part in (database, schema, *parts) if part]
    return platform, ".".join(parts)


class _Uri(NamedTuple):
    """A URI taken apart; all parts are empty where it could not be."""

    scheme: str = ""
    host: str = ""
    path: str = ""


def _split(uri: str | None) -> _Uri:
    """Return scheme, host (no credentials) and path of `uri`; its query may hold a secret."""
    try:
        parts = urlsplit(uri or "")
    except ValueError:
        return _Uri()
    return _Uri(parts.scheme.lower(), parts.netloc.rpartition("@")[2], parts.path)


def place_of_uri(uri: str) -> _Place | None:
    """Return platform and name of the file or folder at `uri`, or None for what is no dataset."""
    if "://" not in uri and not uri.startswith(("file:", "dbfs:", "runs:", "models:")):
        return _local(uri)
    scheme, host, path = _split(uri)
    if scheme in _OBJECT_STORES:
        # Keys may hold "?" and "#", which are no query and no fragment here.
        return _named(_OBJECT_STORES[scheme], uri.partition("://")[2])
    if scheme in _AZURE:
        container, at, _ = uri.partition("://")[2].partition("@")
        return _named("abs", f"{container}{path}") if at else None
    if scheme in _DATABASES:
        return _named(_DATABASES[scheme], ".".join(filter(None, (host, *path.split("/")))))
    match scheme:
        case "http" | "https":
            return _web(host.lower(), path)
        case "file":
            return _local(unquote(path))
        case "dbfs" | "hdfs":
            return _named(scheme, path)
        case _:
            return None


def _web(host: str, path: str) -> _Place | None:
    if host.endswith(_AZURE_HOSTS):
        return _named("abs", unquote(path))
    if host == "storage.googleapis.com":
        return _named("gcs", unquote(path))
    if host.endswith(".amazonaws.com"):
        bucket, dot, service = host.partition(".s3")
        if dot and service[:1] in {".", "-"}:
            return _named("s3", f"{bucket}{unquote(path)}")
        if host.startswith(("s3.", "s3-")):
            return _named("s3", unquote(path))
    return _named("http", f"{host}{path}")


def _local(path: str) -> _Place | None:
    if path.startswith("/Volumes/"):
        return _named("databricks", path)
    name = path.rstrip("/") or path
    return ("file", name) if name.strip() else None


def _named(platform: str, name: str) -> _Place | None:
    keep_root = platform in {"dbfs", "hdfs", "databricks"}
    bare = name.rstrip("/") if keep_root else name.strip("/")
    return (platform, bare) if bare.strip() else None
