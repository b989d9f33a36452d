"""The format of a definitions file: what stands in it, as its JSON Schema says it too."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.urn import PREFIX, check, entity_type_of
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.sources.datasets import Platform

_OWNERS = {"corpuser", "corpGroup"}


def _dataset_urn(text: str) -> str:
    if not text.startswith(PREFIX):
        raise ValueError("has to be the URN of a dataset, or {platform: ..., name: ...}")
    try:
        if entity_type_of(text) != "dataset":
            raise ValueError("is not the URN of a dataset")
        check(text)
    except InvalidUrnError as error:
        raise ValueError(f"is not the URN of a dataset: {error}") from None
    return text


def _owner(text: str) -> str:
    if not text.startswith("urn:"):
        return text
    try:
        if entity_type_of(text) not in _OWNERS:
            raise ValueError("has to be a name, or the URN of a corpuser or corpGroup")
        check(text)
    except InvalidUrnError as error:
        raise ValueError(f"is not the URN of a user or group: {error}") from None
    return text


Owner = Annotated[PublicStr, AfterValidator(_owner)]
"""A name that the recipe's `owners` apply to, or the URN of a user or group."""

DatasetUrn = Annotated[PublicStr, AfterValidator(_dataset_urn)]
"""The URN of a dataset, taken as it is."""


class PlaceSpec(RecipeModel):
    """A dataset by platform and name; the recipe's `datasets` apply to it."""

    platform: Platform
    """What the catalog calls the platform, such as `snowflake` or `s3`."""

    name: PublicStr
    """The name there, such as `db.schema.table` or `bucket/folder`."""


def _kind_of_source(value: Any) -> str:
    return "place" if isinstance(value, Mapping | PlaceSpec) else "urn"


# By its kind, so that what is wrong with it is told of the one thing that it was meant to be.
SourceSpec = Annotated[
    Annotated[DatasetUrn, Tag("urn")] | Annotated[PlaceSpec, Tag("place")],
    Discriminator(_kind_of_source),
]
"""A dataset, by its URN or by platform and name."""


class ColumnSpec(RecipeModel):
    """What features and keys have in common."""

    name: PublicStr
    """The name, once among the features and once among the keys of a table."""

    type: MLFeatureDataType = "UNKNOWN"
    """One of the catalog's 17 types of features."""

    description: str | None = None
    """What it is, for people."""

    owners: tuple[Owner, ...] = ()
    """Its owners; those of the table where there are none."""

    tags: dict[PublicStr, str | None] = Field(default_factory=dict)
    """Tags `key: value`, which become `key:value`; without a value, the key alone."""

    properties: dict[PublicStr, str] = Field(default_factory=dict)
    """Custom properties."""

    sources: tuple[SourceSpec, ...] | None = None
    """The datasets that it comes from; those of the table where it is left out."""


class FeatureSpec(ColumnSpec):
    """A feature of a table."""

    version: PublicStr | None = None
    """Its version, where the store has versions of features."""


class KeySpec(ColumnSpec):
    """What rows of a table are looked up by."""

    column: PublicStr | None = None
    """The column that holds it, where that is named otherwise."""


class TableSpec(RecipeModel):
    """A feature table: features that share keys and sources."""

    name: PublicStr
    """The name, once in a namespace."""

    kind: PublicStr = "Feature Table"
    """What the store calls it, such as `Feature Group`; shown as the table's subtype."""

    description: str | None = None
    """What it is, for people."""

    owners: tuple[Owner, ...] = ()
    """Its owners, and those of its features and keys that name none."""

    tags: dict[PublicStr, str | None] = Field(default_factory=dict)
    """Tags `key: value`, which become `key:value`; without a value, the key alone."""

    properties: dict[PublicStr, str] = Field(default_factory=dict)
    """Custom properties."""

    sources: tuple[SourceSpec, ...] = ()
    """The datasets that its features come from."""

    keys: tuple[KeySpec, ...] = ()
    """What its rows are looked up by."""

    features: tuple[FeatureSpec, ...] = ()
    """Its features."""


class DefinitionsDocument(RecipeModel):
    """What stands in one definitions file."""

    schema_: str | None = Field(default=None, validation_alias="$schema")
    """For editors; not used."""

    version: Literal[1]
    """The version of this format."""

    platform: Annotated[Platform, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}$")]
    """What the catalog calls the feature store: part of the URN of each table."""

    namespace: PublicStr | None = None
    """The store's project: the first part of the name of each table, `<namespace>.<table>`."""

    tables: tuple[TableSpec, ...] = ()
    """The feature tables."""

    sets: dict[PublicStr, tuple[PublicStr, ...]] = Field(default_factory=dict)
    """Features that are asked for together by a name, each as `<table>:<feature>`."""
