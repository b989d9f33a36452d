"""Options that several sources share: features, owners, feature stores, DataHub's names."""

import hashlib
import re
from functools import lru_cache
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.links.rules import LinkOptions
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.urn import build, check
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel, named
from mlcat_ingest.recipe.loader import read_file
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.recipe.values import (
    Fabric,
    OwnerRef,
    OwnerType,
    Pattern,
    PatternFilter,
    RecipePath,
)
from mlcat_ingest.sources.datasets import DatasetsConfig

_URNS: Final = ("urn:li:corpuser:", "urn:li:corpGroup:")
_NOBODY: Final[Aspect] = {"owners": []}
_CACHED_USERS: Final = 10_000


def _unambiguous(owners: dict[str, str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name, urn in owners.items():
        if known.setdefault(name.lower(), urn) != urn:
            raise ValueError(f"has two owners for `{name}`, since names ignore case; keep one")
    return owners


_OwnerMap = Annotated[dict[PublicStr, OwnerRef], AfterValidator(_unambiguous)]


class OwnersConfig(RecipeModel):
    """How users in a source map to owners in the catalog.

    A user is looked up in `map` and `map_file`, first by the whole name, then by the part that
    `pattern` matches. Other users become users of the catalog with that name. The URN of a user or
    group is used as it is.
    """

    type: OwnerType = "TECHNICAL_OWNER"
    """Ownership type: a built-in type of the catalog, such as DATAOWNER, or the URN of a custom
    ownership type."""

    ignore: tuple[PublicStr, ...] = ("unknown",)
    """User names, in any case, that never become owners; an empty name never does."""

    pattern: Pattern | None = None
    """A regular expression whose first group, or whole match without a group, is the user's name in
    the catalog, for example `([^@]+)@acme\\.com`. A name that does not match is used whole."""

    map: _OwnerMap = Field(default_factory=dict)
    """User names, in any case, mapped to names in the catalog or URNs of users and groups."""

    map_file: RecipePath | None = None
    """A YAML or JSON file with the key `map`. Entries in the recipe take precedence."""

    def map_digest(self) -> str:
        """Return a digest of the map file, empty without one."""
        path = self.map_file
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


class _MapFile(RecipeModel):
    """The content of a `map_file`."""

    map: _OwnerMap


class Owners:
    """Turns users into owners. Safe for threads; what it found out of a name it remembers."""

    def __init__(self, config: OwnersConfig | None = None) -> None:
        """Read the map file, if there is one.

        Raises:
            RecipeError: the file cannot be read.
            RecipeSyntaxError: it is not YAML or JSON.
            RecipeValidationError: its `map` is none of names to names.
        """
        config = config or OwnersConfig()
        more: dict[str, str] = {}
        if config.map_file is not None:
            hint = "correct `owners.map_file` in the recipe"
            draft = read_file(config.map_file, "owners file", hint)
            map_file, problems = validate_config(_MapFile, draft.data, (), draft.origin)
            if map_file is None or draft.problems:
                raise draft.origin.error([*draft.problems, *problems])
            more = map_file.map
        self._map = {name.lower(): urn for name, urn in {**more, **config.map}.items()}
        self._ignored = frozenset(name.lower() for name in config.ignore)
        self._pattern = re.compile(config.pattern) if config.pattern else None
        named = config.type.startswith("urn:")
        self._type = {"type": "CUSTOM", "typeUrn": config.type} if named else {"type": config.type}
        self.urn = lru_cache(_CACHED_USERS)(self._urn)

    def _urn(self, user: str | None) -> str | None:
        """Return the URN of the owner for a user name, None for an ignored or unusable name."""
        name = whole_characters(user or "").strip()
        if not name or name.lower() in self._ignored:
            return None
        mapped = self._map.get(name.lower())
        if mapped is not None:
            return mapped
        try:
            if name.startswith(_URNS):
                check(name)
                return name
            match = self._pattern.match(name) if self._pattern else None
            if match is not None:
                name = (match[1] if match.re.groups else match[0]) or ""
                mapped = self._map.get(name.lower())
            return mapped or build("corpuser", name)
        except InvalidUrnError:
            return None

    def ownership(self, urn: str | None) -> Aspect:
        """Return the `ownership` aspect with the owner `urn`, empty for None."""
        return _NOBODY if urn is None else {"owners": [{"owner": urn, **self._type}]}


class FeaturesConfig(RecipeModel):
    """Links from models to their training features.

    Features named by a run are looked up among those of this recipe's feature sources, then in the
    catalog.
    """

    enabled: bool = True
    """Whether to link models. `false` keeps existing links."""

    dangling: bool = False
    """Whether to link also to features unknown to the feature sources and to the catalog. An
    ambiguous name is never linked."""

    project: PublicStr | None = None
    """Project of Feast references in runs that name no project. Default: the project of this
    recipe's feature sources, if there is only one."""

    instance: PublicStr | None = named("instance", "platform_instance")
    """Platform instance of feature stores outside this recipe's feature sources: a prefix of every
    name."""

    namespace_prefix: PublicStr | None = None
    """A further prefix of the names in such feature stores."""

    model_files: bool = False
    """Whether to read the file `MLmodel` of every logged model of MLflow 3 from any artifact store.
    The model then has its signature, flavors and size. The signature narrows the features of Feast
    to the inputs of the model and identifies models of Databricks' feature engineering. Cost: two
    requests for each logged model whenever its run is read. `false` reads the file only from local
    folders."""

    dataset_match: bool = False
    """Whether to infer features from a dataset of the run that is the source of a feature table:
    the features with the names of its columns. A guess."""

    signature_names: bool = False
    """Whether to infer features from the names of a model's inputs, if exactly one table of all
    feature sources has a feature of that name. A guess."""

    from_signature: bool = False
    """Whether to make features of a model's inputs if it has no other features: one table for each
    model name and signature. Models of MLflow 3 also need `model_files`, or artifacts in a local
    folder."""

    @model_validator(mode="after")
    def _names_can_be_made(self) -> Self:
        _ = LinkOptions(self.instance, self.namespace_prefix).elsewhere
        return self

    def options(self) -> LinkOptions | None:
        """Return what the rules need to know, None where nothing is linked."""
        given = self.model_dump(exclude={"enabled", "model_files"})
        return LinkOptions(**given) if self.enabled else None


class FeatureStoreConfig(RecipeModel):
    """Options of every feature store."""

    tables: PatternFilter = PatternFilter()
    """The feature tables (views, groups) to read, by name."""

    env: Fabric = "PROD"
    """Environment of the source datasets of features; `datasets` may override it by platform. URNs
    of features and tables contain no environment."""

    instance: PublicStr | None = named("instance", "platform_instance")
    """Platform instance: a prefix of every name, for several stores in one catalog."""

    namespace_prefix: PublicStr | None = None
    """A prefix of every name that is not a platform instance. URNs of features contain no platform,
    so two stores with projects of the same name need it."""

    server_id: PublicStr | None = None
    """Identity of the store among the catalog's sources. Default: its own id (Feast), account and
    region (SageMaker), or `path` (definitions); else its address."""

    owners: OwnersConfig = OwnersConfig()
    """How owners in the store map to owners in the catalog."""

    datasets: DatasetsConfig = DatasetsConfig()
    """How the catalog names the source datasets of features."""


def check_compat(compat: str | None, instance: str | None) -> None:
    """Refuse an instance beside `compat`.

    Raises:
        ValueError: both are set.
    """
    if compat is not None and instance is not None:
        raise ValueError(
            "`compat: datahub` cannot be combined with `instance`: DataHub's own source has no "
            "instances, so its names would differ; delete one of the two"
        )
