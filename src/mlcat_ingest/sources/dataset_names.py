"""One name for each dataset, the one that the connectors of its platform write.

A run logs the file or partition that it read, while the catalog knows the table; and many
databases keep names in lower case whatever was typed.

Source: DataHub's connectors: `s3`, `gcs`, `abs` and `delta-lake` (no scheme, no slash at either
end), `bigquery` (no shard, partition, wildcard or snapshot), `snowflake` (lower case).
"""

import re
from typing import Final, NamedTuple

FOLDED: Final = frozenset(
    {"athena", "databricks", "glue", "hive", "presto", "redshift", "snowflake", "trino"}
)
"""Platforms whose connectors write names in lower case, as the database keeps them."""

_FOLDERS: Final = {"s3": 1, "gcs": 1, "abs": 1, "delta-lake": 1, "file": 0, "dbfs": 0, "hdfs": 0}
"""Platforms whose names are paths, and how many leading parts (the bucket) always stay."""
_ROOTED: Final = frozenset({"dbfs", "hdfs", "databricks"})
"""Platforms whose paths keep the slash that they begin with."""

_GLOB: Final = re.compile(r"\*|\{[^{}]*,[^{}]*\}")
_PARTITION: Final = re.compile(r"[A-Za-z_][\w.-]*=.*", re.DOTALL)
# What Spark, Hive and Delta put beside and below the data of a table.
_INSIDE: Final = re.compile(r"_delta_log|_temporary|_SUCCESS|_(started|committed)_\d+")
_PART_FILE: Final = re.compile(r"part-\d+([.-].*)?|\d{6}_\d+", re.DOTALL)

# Suffixes of one BigQuery table: a wildcard, a snapshot, a partition, a shard by date.
_WILDCARD: Final = re.compile(r"(_\d*)?\*$")
_SHARD: Final = re.compile(r"(?<=.\D)(\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01]))$")


class DatasetName(NamedTuple):
    """A dataset's platform, its name there, and the part of it that was meant, empty for all."""

    platform: str
    name: str
    part: str = ""


def normalised(
    platform: str, name: str, *, lowercase: bool | None = None, cut: bool = True
) -> DatasetName:
    """Return the one name of a dataset, of the many that lead to it.

    `lowercase` overrides what is known of the platform; without `cut` partitions keep their names.
    """
    part = ""
    is_path = platform in _FOLDERS or (platform == "databricks" and name.startswith("/"))
    if is_path:
        name, part = _table_of(platform, name) if cut else (_trimmed(platform, name), "")
    elif platform == "bigquery" and cut:
        name, part = _unsharded(name)
    folded = platform in FOLDED if lowercase is None else lowercase
    if folded and (lowercase or not is_path):
        name = name.lower()
    return DatasetName(platform, name, part)


def _trimmed(platform: str, path: str) -> str:
    bare = path.strip("/")
    return f"/{bare}" if platform in _ROOTED else bare


def _table_of(platform: str, path: str) -> tuple[str, str]:
    """Return the path of the folder that holds a whole table, and what was cut off it."""
    names = _trimmed(platform, path).strip("/").split("/")
    stays = _FOLDERS.get(platform, 0)
    end = next((at for at, name in enumerate(names) if at >= stays and _inside(name)), len(names))
    # Slashes at the end go, too: behind them may be another part file.
    while end > stays and (not names[end - 1] or _PART_FILE.fullmatch(names[end - 1])):
        end -= 1
    if not "/".join(names[:end]).strip("./"):
        end = len(names)  # nothing is left that could be a table
    return _trimmed(platform, "/".join(names[:end])), "/".join(names[end:]).strip("/")


def _inside(name: str) -> bool:
    return bool(_PARTITION.fullmatch(name) or _GLOB.search(name) or _INSIDE.fullmatch(name))


def _unsharded(name: str) -> tuple[str, str]:
    place, dot, table = name.rpartition(".")
    kept = table
    while True:
        bare = _WILDCARD.sub("", kept).partition("$")[0].partition("@")[0]
        shorter = _SHARD.sub("", bare)
        shorter = bare if shorter == bare else shorter.rstrip("_")
        # A table that is called by a date alone is all shard: its name is all there is.
        if not shorter or shorter == kept:
            return f"{place}{dot}{kept}", table[len(kept) :].lstrip("_")
        kept = shorter
