"""How an aspect is declared: once, beside its record, with all that other modules read of it.

A declaration's value is the aspect's name on the wire, so that every module uses the constant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypedDict, Unpack

ASSETS: Final = (
    "mlModel mlModelGroup mlFeature mlFeatureTable mlPrimaryKey dataset dataFlow dataJob container"
)
"""Entity types that are owned, tagged, documented and put into domains alike."""

BROWSED: Final = "mlModel mlModelGroup mlFeature mlFeatureTable dataset dataFlow dataJob container"
"""Those of them that have a place in the browse view."""

ATTRIBUTION: Final = "attribution\u241fsource"
"""The key field for the source of an entry; U+241F leads into a nested object."""


class SearchField(NamedTuple):
    """A searchable field: its path in the aspect, and what people filter on and see.

    Its words are indexed in `column` (None: nowhere). A `keyword` is also indexed as it is, to
    filter on and to count; a name in a filter that is no URN may be one of `entity_types`.
    """

    path: str
    field: str
    column: Literal["description", "tags"] | None = None
    keyword: bool = True
    entity_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AspectSpec:
    """One aspect.

    Attributes:
        name: its name on the wire.
        record: the record name that reads answer it under.
        type: its `TypedDict`, or None where any object will do.
        entity_types: the entity types that may have it; none for aspects of open entity types.
        timeseries: whether it is a series of events; all others hold one value a version.
        merge_keys: list of records to the fields, separated by blanks, that make two of its entries
            the same. Lists that are not named are keyed by each record's whole value.
        patch_keys: path of an array to the key fields of its entries, none for an array of texts;
            None where a server has no template for patches, which then bring keys of their own.
        one_value: lists that are one value, since their order is their meaning.
        computed: fields that the service computes: they are never sent, and never compared.
        unowned: further fields without an owner: the stored value stays.
        curated: the list whose entries people add in the catalog; it moves with a renamed group.
        searched: its searchable fields.
    """

    name: str
    record: str
    type: type | None
    entity_types: frozenset[str]
    timeseries: bool = False
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    patch_keys: Mapping[str, str] | None = None
    one_value: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    unowned: frozenset[str] = frozenset()
    curated: str | None = None
    searched: tuple[SearchField, ...] = ()


DECLARED: Final[dict[str, AspectSpec]] = {}
"""Name to aspect, of the modules imported so far; `registry.DECLARED` has all."""


class AspectFacts(TypedDict, total=False):
    """The fields of `AspectSpec` that a declaration may add."""

    timeseries: bool
    merge_keys: Mapping[str, str]
    patch_keys: Mapping[str, str]
    one_value: frozenset[str]
    computed: frozenset[str]
    unowned: frozenset[str]
    curated: str
    searched: tuple[SearchField, ...]


def aspect(
    name: str, record: str, typed: type | None = None, on: str = "", **facts: Unpack[AspectFacts]
) -> str:
    """Declare an aspect of the entity types `on`, separated by blanks, and return its name.

    `record` is the record's name without `com.linkedin.`.
    """
    entity_types = frozenset(on.split())
    DECLARED[name] = AspectSpec(name, f"com.linkedin.{record}", typed, entity_types, **facts)
    return name
