"""One name and URN for each dataset, the name that the connectors of its platform write.

An address becomes a platform and a name: `<bucket>/<key>` for object stores,
`<database>.<schema>.<table>` for tables, the path for files. Then the name is normalised: a run
logs the file or partition that it read, while the catalog knows the table, and many databases keep
names in lower case. A recipe changes the platform's defaults.

Source: DataHub's connectors: `s3`, `gcs`, `abs` and `delta-lake` (no scheme, no slash at either
end), `bigquery` (no shard, partition, wildcard or snapshot), `snowflake` (lower case).
"""

import csv
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import data_platform
from mlcat_ingest.metadata.urn import dataset as build_urn
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel, named
from mlcat_ingest.recipe.loader import did_you_mean
from mlcat_ingest.recipe.values import Fabric, Pattern


class _Rules(NamedTuple):
    """The names of one platform's datasets: a row of `platforms.csv`, empty where nothing applies.

    `schemes` are those of its URIs, without a driver; `tables` the parts of a table's full name,
    `any` for no fixed number. Of paths `stays` is how many leading parts (the bucket) always stay,
    and `root` the slash that they keep. `case` says which names are in lower case: all, those in
    capitals too, or only those without quotes; `why` has the reason.
    """

    schemes: str
    tables: str
    stays: str
    root: str
    case: str
    why: str


_TABLE: Final = Path(__file__).with_name("platforms.csv").read_text("utf-8").splitlines()[1:]
_RULES: Final = {name: _Rules(*others) for name, *others in csv.reader(_TABLE)}

PLATFORMS: Final = frozenset(_RULES)
"""Platforms of all datasets that MLflow, Feast and SageMaker tell of by themselves."""

LEVELS: Final = {name: int(one.tables) for name, one in _RULES.items() if one.tables.isdigit()}
"""Platforms of tables, and how many parts the full name of a table has there."""

DATABASES: Final = {scheme: name for name in LEVELS for scheme in _RULES[name].schemes.split()}
"""URI scheme, without a driver, to the platform of tables."""

FOLDING: Final = {name: one.case for name, one in _RULES.items() if one.case}
"""The names in lower case by platform, as `case` of its row says."""

_STAYS: Final = {name: int(one.stays) for name, one in _RULES.items() if one.stays}
_OBJECT_STORES: Final = {
    scheme: name for name in _STAYS.keys() - LEVELS for scheme in _RULES[name].schemes.split()
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
_QUERY: Final = re.compile(r"\?[A-Za-z_][\w.-]*=.*", re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_SPARK_PART: Final = re.compile(r"`(?:[^`]|``)+`|[^.`]+")
_SPARK_NAME: Final = re.compile(rf"(?:{_SPARK_PART.pattern})(?:\.(?:{_SPARK_PART.pattern}))*")
_SPARK_FORMATS: Final = frozenset(
    ("avro", "binaryfile", "csv", "delta", "hudi", "iceberg", "json", "orc", "parquet", "text")
)
_QUOTES: Final = str.maketrans("", "", '`"[]')
_TABLE_FORMATS: Final = {"delta": "delta-lake", "hudi": "hudi", "iceberg": "iceberg"}
_AS_OF: Final = re.compile(
    r"(?:\s+(?:for\s+)?(?:(?:system_)?version|timestamp|system_time)\s+as\s+of\s[^`]*|@v?\d+)\Z",
    re.IGNORECASE,
)
_AT_VERSION: Final = re.compile(r"@(?:v\d+|\d{17})\Z")
"""A version or time behind the path of a Delta table."""
_ROOTED: Final = frozenset(name for name, one in _RULES.items() if one.root)

Place = tuple[str, str]
"""Platform and name."""

_GLOB: Final = re.compile(r"\*|\{[^{}]*,[^{}]*\}")

_PARTITION: Final = re.compile(r"[A-Za-z_][\w.-]*=.*", re.DOTALL)

# What Spark, Hive and Delta put beside and below the data of a table.
_INSIDE: Final = re.compile(r"_delta_log|_temporary|_SUCCESS|_(started|committed)_\d+")

_PART_FILE: Final = re.compile(r"part-\d+([.-].*)?|\d{6}_\d+", re.DOTALL)

# Suffixes of one BigQuery table: a wildcard, a snapshot, a partition, a shard by date.
_WILDCARD: Final = re.compile(r"(_\d*)?\*$")

_SHARD: Final = re.compile(r"(?<=.\D)(\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01]))$")


class _Uri(NamedTuple):
    """A URI taken apart; all parts are empty where it could not be."""

    scheme: str = ""
    host: str = ""
    path: str = ""


def split(uri: str | None) -> _Uri:
    """Return scheme (no driver), host (no credentials) and path of `uri`.

    Its query may hold a secret, and is left out; so are the settings of a database after a `;`, and
    what has no host, such as the `thin:<user>/<password>@…` of Oracle's driver.
    """
    try:
        parts = urlsplit((uri or "").removeprefix("jdbc:"))
    except ValueError:
        return _Uri()
    scheme = parts.scheme.lower().partition("+")[0]
    host, path = parts.netloc.rpartition("@")[2], parts.path
    if scheme in DATABASES:
        host = "" if ";" in parts.netloc else host
        path = path.partition(";")[0] if parts.netloc or path.startswith("/") else ""
    return _Uri(scheme, host, path)


def place_of_uri(uri: str) -> Place | None:
    """Return platform and name of the dataset at `uri`, or None for what is no dataset."""
    if "://" not in uri and not uri.lower().startswith(_SCHEME_ALONE):
        return _local(uri)
    parts = split(uri)
    rest = uri.partition("://")[2]
    if parts.scheme in _OBJECT_STORES:
        # Keys may hold "?" and "#", which alone are no query and no fragment here.
        bucket, slash, key = _QUERY.sub("", rest).partition("/")
        name = f"{bucket.rpartition('@')[2]}{slash}{key}"
        return _place_of(_OBJECT_STORES[parts.scheme], name)
    if parts.scheme in _AZURE:
        container, at, _ = rest.partition("@")
        return _place_of("abs", f"{container}{parts.path}") if at else None
    if parts.scheme in DATABASES:
        platform = DATABASES[parts.scheme]
        table = _table(platform, parts)
        return None if table is None else _place_of(platform, table)
    of_scheme = _BY_SCHEME.get(parts.scheme)
    return None if of_scheme is None else of_scheme(parts)


def _table(platform: str, uri: _Uri) -> str | None:
    """Return the name of a table whose address is all there is; the host may be its first part.

    None where it is the address of a server, with a port, and of no table in it.
    """
    names = [name for part in uri.path.split("/") for name in part.split(".") if name]
    if len(names) >= LEVELS[platform]:
        return ".".join(names)
    return None if ":" in uri.host or not uri.host else ".".join((uri.host, *names))


def _web(uri: _Uri) -> Place | None:
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


def _dbfs(path: str) -> Place | None:
    return _local(path) if path.startswith("/Volumes/") else _place_of("dbfs", path)


class _SparkName(NamedTuple):
    """The parts of a table's name in Spark SQL, or the place of the files that it stands for.

    Both are empty for what is neither, such as a subquery.
    """

    parts: tuple[str, ...] = ()
    files: Place | None = None


def spark_name(text: str) -> _SparkName:
    """Return what a name of Spark SQL stands for, without the version that it is read as of.

    Source: `multipartIdentifier`, `temporalClause` and "Run SQL on files directly" of Spark 4.
    """
    name = _AS_OF.sub("", text.strip())
    if _SPARK_NAME.fullmatch(name) is None:
        return _SparkName()
    quoted = [part.startswith("`") for part in _SPARK_PART.findall(name)]
    parts = tuple(part.strip("`").replace("``", "`") for part in _SPARK_PART.findall(name))
    kind, last = parts[0].lower(), parts[-1]
    if len(parts) == 2 and kind in _SPARK_FORMATS and quoted[-1]:
        place = place_of_uri(_AT_VERSION.sub("", last) if kind == "delta" else last)
        if place is None or place[1].startswith("."):
            return _SparkName()
        return _SparkName(files=place_of_format(kind, place))
    plain = all(part and not set(part) & set("./ ") for part in parts)
    return _SparkName(parts if plain else ())


def place_of_format(kind: str, place: Place) -> Place:
    """Return the place of a table of that format, or of plain files, whose files are at `place`."""
    platform = _TABLE_FORMATS.get(kind, place[0])
    return place if place[0] in {"databricks", "dbfs"} else (platform, place[1])


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


_BY_SCHEME: Final[Mapping[str, Callable[[_Uri], Place | None]]] = {
    **dict.fromkeys(("http", "https"), _web),
    "file": lambda uri: _local(unquote(uri.path)),
    "dbfs": lambda uri: _dbfs(uri.path),
    "hdfs": lambda uri: _place_of("hdfs", uri.path),
    "hf": lambda uri: _hub("huggingface", uri.path) if uri.host == "datasets" else None,
    "kaggle": lambda uri: _hub("kaggle", f"{uri.host}{uri.path}"),
}


class DatasetName(NamedTuple):
    """A dataset's platform, its name there, and the part of it that was meant, empty for all."""

    platform: str
    name: str
    part: str = ""


def normalise(
    platform: str, name: str, *, lowercase: bool | None = None, cut: bool = True
) -> DatasetName:
    """Return the one name of a dataset, of the many that lead to it.

    `lowercase` overrides what is known of the platform; without `cut` partitions keep their names.
    """
    part = ""
    is_path = platform in _STAYS and (not _RULES[platform].tables or "/" in name)
    if is_path:
        name, part = _table_of(platform, name) if cut else (_trim(platform, name), "")
    elif platform == "bigquery" and cut:
        name, part = _without_shard(name)
    rule = FOLDING.get(platform) if lowercase is None and not is_path else None
    if lowercase or rule == "all":
        name = name.lower()
    elif rule == "capitals":
        name = ".".join(part.lower() if part.isupper() else part for part in name.split("."))
    return DatasetName(platform, name, part)


def without_quotes(platform: str, part: str) -> str:
    """Return a part of a name in SQL without its quotes; where it has none, the database folds."""
    bare = part.translate(_QUOTES)
    folds = FOLDING.get(platform) in {"capitals", "unquoted"}
    return bare.lower() if folds and bare == part else bare


def _trim(platform: str, path: str) -> str:
    bare = path.strip("/")
    return f"/{bare}" if platform in _ROOTED else bare


def _table_of(platform: str, path: str) -> tuple[str, str]:
    """Return the path of the folder that holds a whole table, and what was cut off it."""
    names = _trim(platform, path).strip("/").split("/")
    stays = _STAYS[platform]
    end = next((at for at, name in enumerate(names) if at >= stays and _inside(name)), len(names))
    # Slashes at the end go, too: behind them may be another part file.
    while end > stays and (not names[end - 1] or _PART_FILE.fullmatch(names[end - 1])):
        end -= 1
    if not "/".join(names[:end]).strip("./"):
        end = len(names)  # nothing is left that could be a table
    return _trim(platform, "/".join(names[:end])), "/".join(names[end:]).strip("/")


def _inside(name: str) -> bool:
    return bool(_PARTITION.fullmatch(name) or _GLOB.search(name) or _INSIDE.fullmatch(name))


def _without_shard(name: str) -> tuple[str, str]:
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


def _platform(name: str) -> str:
    try:
        data_platform(name)
    except InvalidUrnError as error:
        raise ValueError(f"is not a valid platform: {error}") from None
    if name not in PLATFORMS and name.lower() in PLATFORMS:
        raise ValueError(f"is not a platform; did you mean `{name.lower()}`?")
    return name


Platform = Annotated[PublicStr, AfterValidator(_platform)]
"""The catalog's name of a platform, such as `s3`, `gcs`, `abs`, `snowflake`."""


def check_among(
    platforms: Collection[str], possible: Collection[str], where: str, why: str
) -> None:
    """Refuse the first of `platforms` that is not `possible`, so that its options would do nothing.

    Raises:
        ValueError: there is one; the message names the place and the reason.
    """
    for platform in sorted(set(platforms).difference(possible)):
        # Only the nearest name: the recipe's own values are kept out of messages.
        raise ValueError(f"{where} has a platform {why}{did_you_mean(platform, possible)}")


class PlatformConfig(RecipeModel):
    """How the connector of one platform names its datasets, if not by its defaults."""

    instance: PublicStr | None = named("instance", "platform_instance")
    """The platform instance set in that connector's recipe: a prefix of every name."""

    env: Fabric | None = None
    """The environment set in that connector's recipe. Default: that of this source."""

    lowercase: bool | None = named("lowercase", "convert_urns_to_lowercase")
    """Whether names are in lower case. Default: as in the names of the platform's own connector,
    such as true for Snowflake and false for files; the page on lineage names the others."""


class RewriteConfig(RecipeModel):
    """Another name for datasets whose `<platform>:<name>` a pattern matches."""

    match: Pattern
    """A regular expression for `<platform>:<name>`, such as `dbfs:/mnt/lake/`. It matches from the
    start, case-sensitively; the matched part is replaced."""

    to: PublicStr
    """The replacement, such as `s3:lake-bucket/`; `\\1` is the first group."""

    @model_validator(mode="after")
    def _groups_exist(self) -> Self:
        try:
            re.compile(self.match).sub(self.to, "")
        except (re.error, IndexError) as error:
            raise ValueError(f"`to` does not fit the groups of `match`: {error}") from None
        return self


class DatasetsConfig(RecipeModel):
    """How the catalog names datasets, so that lineage joins with that of other connectors.

    An address becomes the name that the platform's own connector uses: without scheme, partition
    folders, part files and wildcards, and in lower case on platforms with lower-case names.
    """

    platforms: dict[Platform, PlatformConfig] = Field(default_factory=dict)
    """By platform: instance, environment and case of the names of its connector."""

    source_types: dict[PublicStr, Platform] = Field(default_factory=dict)
    """Platforms of unknown dataset source types, such as those of a plug-in."""

    rewrite: tuple[RewriteConfig, ...] = ()
    """Rules for datasets with another name in the catalog, such as mounted folders. The first rule
    that matches applies."""

    partitions: Literal["cut", "keep"] = "cut"
    """`cut` shortens the name of a partition, part file or wildcard to that of its table; `keep`
    uses the name as logged."""

    def check_platforms(self) -> Self:
        """Return this, for a source whose datasets are on `PLATFORMS` or on what `self` names.

        Raises:
            ValueError: `platforms` has one that no dataset can be on.
        """
        to = [rule.to.partition(":")[0] for rule in self.rewrite]
        if any("\\" in platform for platform in to):
            return self  # a group of the pattern may be any platform
        possible = {*PLATFORMS, *self.source_types.values(), *to}
        check_among(self.platforms, possible, "`platforms`", "without datasets in this source")
        return self


KnownDatasets = Annotated[DatasetsConfig, AfterValidator(DatasetsConfig.check_platforms)]
"""The option of a source whose datasets are on `PLATFORMS`."""

_DEFAULT: Final = PlatformConfig()


class Datasets:
    """Builds the URNs of datasets by the options of a recipe. Safe for threads."""

    def __init__(self, config: DatasetsConfig | None = None) -> None:
        self._config = config or DatasetsConfig()
        self._rewrites = [(re.compile(rule.match), rule.to) for rule in self._config.rewrite]

    @property
    def source_types(self) -> Mapping[str, str]:
        """Platforms by source type, as the recipe has them."""
        return self._config.source_types

    def resolve(self, platform: str, name: str) -> DatasetName:
        """Return the one name of a dataset, without secrets, rewritten and normalised."""
        name = redact_urls(name)
        address = f"{platform}:{name}"
        for pattern, to in self._rewrites:
            match = pattern.match(address)
            if match is not None:
                rewritten = match.expand(to) + address[match.end() :]
                platform, _, name = rewritten.partition(":")
                break
        known = self._config.platforms.get(platform, _DEFAULT)
        cut = self._config.partitions == "cut"
        return normalise(platform, name, lowercase=known.lowercase, cut=cut)

    def urn(self, place: DatasetName, env: str) -> str | None:
        """Return the URN of a named dataset, or None where it cannot have one.

        `env` is the default for a platform without an environment in the recipe.
        """
        known = self._config.platforms.get(place.platform, _DEFAULT)
        name = f"{known.instance}.{place.name}" if known.instance else place.name
        try:
            return build_urn(place.platform, name, known.env or env)
        except InvalidUrnError:
            return None
