"""Where a dataset is: from the source that MLflow logged to a platform and a name on it."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.sources.dataset_places import DATABASES, LEVELS, Place, place_of_uri, split
from mlcat_ingest.sources.mlflow.values.mlmodel import json_or_none

_UC_PARTS: Final = 3
_OF_SPARK: Final = ("spark", "delta", "databricks")
"""How source types begin whose tables are in a metastore, or in Unity Catalog."""
_SETTING: Final = re.compile(r";\s*database(?:name)?\s*=\s*([^;]+)", re.IGNORECASE)
"""Where the address of an SQL Server has its database."""
_SESSION_CATALOG: Final = "spark_catalog"
_HUBS: Final = {"hugging_face": "huggingface", "huggingface": "huggingface", "kaggle": "kaggle"}
_JSON: Final = ("{", "[", '"')
# What Feast gives as the source of every run's training data, where it has no other.
_NO_PLACE: Final = frozenset({"feast.get_historical_features"})
_NO_PLATFORMS: Final[Mapping[str, str]] = MappingProxyType({})


def json_object(text: str | None) -> Mapping[str, Any]:
    """Return the JSON object that `text` holds; an empty one for anything else."""
    value = json_or_none(text)
    return value if isinstance(value, dict) else {}


def place_of(
    source_type: str, source: str, platforms: Mapping[str, str] = _NO_PLATFORMS
) -> Place | None:
    """Return platform and name of the dataset that a logged source tells, or None.

    `platforms` says where further source types have their data.

    Source: `DatasetSource.to_json` of MLflow 3.17's dataset sources (file systems and object
    stores, http, delta_table, spark, hugging_face, uc_volume), and plain URIs.
    """
    facts = json_object(source)
    kind = source_type.lower()
    told = platforms.get(source_type)
    if kind in _HUBS and told is None:
        path = _text(facts, "path", "name", "handle")
        return (_HUBS[kind], path) if path else None
    table = _text(facts, "delta_table_name", "table_name", "table", "table_fqn")
    uri = _text(facts, "uri", "url", "path", "s3_uri")
    if not facts and source.strip() != "null" and not source.lstrip().startswith(_JSON):
        uri = source.strip()
    if table:
        platform = told or DATABASES.get(kind) or DATABASES.get(split(uri).scheme)
        if platform is not None:
            return platform, _full_name(platform, table, facts, uri)
        unity = facts.get("is_databricks_uc_table") is True
        return _of_spark(table, unity=unity) if unity or kind.startswith(_OF_SPARK) else None
    if not uri or uri in _NO_PLACE:
        return None
    place = place_of_uri(uri)
    if told is not None:
        return (told, uri.partition("://")[2] or uri) if place is None else (told, place[1])
    if place is not None and kind == "delta_table" and place[0] not in {"databricks", "dbfs"}:
        return ("delta-lake", place[1])
    return place


def _text(facts: Mapping[str, Any], *keys: str) -> str | None:
    return next((v.strip() for k in keys if isinstance(v := facts.get(k), str) and v.strip()), None)


def _parts(table: str) -> list[str]:
    return [part.strip('`"[]') for part in table.split(".")]


def _of_spark(table: str, *, unity: bool) -> Place:
    """Return the place of a table that Spark or Delta names.

    Three levels are a catalog, two the metastore.
    """
    parts = _parts(table)
    if len(parts) == _UC_PARTS and parts[0] == _SESSION_CATALOG:
        return ("hive", ".".join(parts[1:]))
    return ("databricks" if unity or len(parts) == _UC_PARTS else "hive", ".".join(parts))


def _full_name(platform: str, table: str, facts: Mapping[str, Any], uri: str | None) -> str:
    parts = _parts(table)
    levels = LEVELS.get(platform, len(parts))
    if len(parts) < levels:
        schema = _text(facts, "schema", "dataset") if len(parts) == 1 else None
        database = _text(facts, "database", "catalog", "project") or _database(uri)
        parts = [part for part in (database, schema, *parts) if part][-levels:]
    return ".".join(parts)


def _database(uri: str | None) -> str:
    found = _SETTING.search(uri or "")
    return found[1].strip() if found else split(uri).path.strip("/")
