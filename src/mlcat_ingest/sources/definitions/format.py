"""The format of definitions files: a `DefinitionsDocument` is the checked content of one."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from mlcat_ingest.metadata.aspects import MLFeatureDataType
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.values import urn_validator
from mlcat_ingest.sources.datasets import Platform


def _no_urn(text: str) -> str:
    del text
    raise ValueError("must be the URN of a dataset, or {platform: ..., name: ...}")


def _no_address(text: str) -> str:
    if "://" in text:
        raise ValueError("is an address; write the name, such as `bucket/folder`, or give the URN")
    return text


_Owner = Annotated[PublicStr, AfterValidator(urn_validator("corpuser", "corpGroup", name=str))]
"""A name that the recipe's `owners` apply to, or the URN of a user or group."""

_DatasetUrn = Annotated[PublicStr, AfterValidator(urn_validator("dataset", name=_no_urn))]
"""The URN of a dataset, taken as it is."""


class PlaceSpec(RecipeModel):
    """A dataset by platform and name; the recipe's `datasets` apply to it."""

    platform: Platform
    """The catalog's name of the platform, such as `snowflake` or `s3`."""

    name: Annotated[PublicStr, AfterValidator(_no_address)]
    """The dataset's name on that platform, such as `db.schema.table` or `bucket/folder`."""


def _kind_of_source(value: Any) -> str:
    return "place" if isinstance(value, Mapping | PlaceSpec) else "urn"


# By its kind, so that its problems are those of the one thing that it was meant to be.
_SourceSpec = Annotated[
    Annotated[_DatasetUrn, Tag("urn")] | Annotated[PlaceSpec, Tag("place")],
    Discriminator(_kind_of_source),
]
"""A dataset, by its URN or by platform and name."""


class _DescribedSpec(RecipeModel):
    """The fields that tables, features and keys share."""

    name: PublicStr
    """The name, unique in the namespace, or among the features or the keys of a table."""

    description: str | None = None
    """A description for readers."""

    owners: tuple[_Owner, ...] = ()
    """Its owners. Default of features and keys: those of the table."""

    tags: dict[PublicStr, str | None] = Field(default_factory=dict)
    """Tags `key: value`, which become `key:value`; without a value, the key alone."""

    properties: dict[PublicStr, str] = Field(default_factory=dict)
    """Custom properties."""


class ColumnSpec(_DescribedSpec):
    """The fields that features and keys share."""

    type: MLFeatureDataType = "UNKNOWN"
    """One of the catalog's 17 types of features."""

    sources: tuple[_SourceSpec, ...] | None = None
    """Its source datasets. Default: those of the table."""


class FeatureSpec(ColumnSpec):
    """A feature of a table."""

    version: PublicStr | None = None
    """Its version, if the store has versions of features."""


class KeySpec(ColumnSpec):
    """A key of a table: rows are looked up by it."""

    column: PublicStr | None = None
    """The column of the key. Default: its name."""


class TableSpec(_DescribedSpec):
    """A feature table: features that share keys and sources."""

    kind: PublicStr = "Feature Table"
    """The store's term for such a table, such as `Feature Group`; shown as its subtype."""

    sources: tuple[_SourceSpec, ...] = ()
    """The source datasets of its features."""

    keys: tuple[KeySpec, ...] = ()
    """The keys by which its rows are looked up."""

    features: tuple[FeatureSpec, ...] = ()
    """Its features."""


class DefinitionsDocument(RecipeModel):
    """The content of one definitions file."""

    schema_: str | None = Field(default=None, validation_alias="$schema")
    """For editors; not used."""

    version: Literal[1]
    """The version of this format."""

    platform: Annotated[Platform, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}$")]
    """The catalog's name of the feature store: part of the URN of each table."""

    namespace: PublicStr | None = None
    """The store's project: the first part of the name of each table, `<namespace>.<table>`."""

    tables: tuple[TableSpec, ...] = ()
    """The feature tables."""

    sets: dict[PublicStr, tuple[PublicStr, ...]] = Field(default_factory=dict)
    """Named sets of features that are retrieved together, each as `<table>:<feature>`."""
