"""Markers of the `Annotated` fields of aspects: widths, defaults, edges and URN kinds.

The declarations in this package are read twice: by the type checker, and at run time by
`metadata.validate` and `metadata.shapes`, which find these markers through `typing`.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias


@dataclass(frozen=True, slots=True, init=False)
class UrnOf:
    """The text (or each text of the list) is a URN, of one of `kinds` where any are given."""

    kinds: tuple[str, ...]

    def __init__(self, *kinds: str) -> None:
        """Keep the entity types that the URN may have; none means any."""
        object.__setattr__(self, "kinds", kinds)


@dataclass(frozen=True, slots=True, init=False)
class Edge:
    """The field holds the destinations of a relationship.

    `at` names the field of the nested record that holds the URN, or a list of them, where the field
    itself holds a list of records. People search by it under the field's own name where it is in an
    aspect that describes its entity, else under `search`. For an edge of lineage,
    `lineage` is the direction in which the destination lies. An edge that DataHub's model lacks is
    `ours`: pages and deletions follow it, lineage does not.
    """

    relationship: str
    kinds: tuple[str, ...]
    at: str | None
    search: str | None
    lineage: Literal["upstream", "downstream"] | None
    ours: bool

    def __init__(
        self,
        relationship: str,
        *kinds: str,
        at: str | None = None,
        search: str | None = None,
        lineage: Literal["upstream", "downstream"] | None = None,
        ours: bool = False,
    ) -> None:
        """Keep the relationship, the entity types of its destinations, and what holds of it."""
        object.__setattr__(self, "relationship", relationship)
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "search", search)
        object.__setattr__(self, "lineage", lineage)
        object.__setattr__(self, "ours", ours)


@dataclass(frozen=True, slots=True)
class Default:
    """The service fills this JSON text in where the field is left out; null is refused."""

    json: str


@dataclass(frozen=True, slots=True)
class Bits:
    """How wide a signed integer may be."""

    width: Literal[32, 64]


class OneOf:
    """The object has exactly one of its keys: a union that is wrapped by the name of its type."""


class Bytes:
    """The text stands for bytes, one a character, so that it has none above U+00FF."""


Millis: TypeAlias = int
"""Milliseconds since 1970-01-01 UTC."""

Int32: TypeAlias = Annotated[int, Bits(32)]
AnyUrn: TypeAlias = Annotated[str, UrnOf()]

EMPTY_MAP: Final = Default("{}")
EMPTY_LIST: Final = Default("[]")
