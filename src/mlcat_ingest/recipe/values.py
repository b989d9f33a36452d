"""Field types that several configurations share: patterns, ownership types, references by URN."""

import re
from collections.abc import Callable
from typing import Annotated, get_args

from pydantic import AfterValidator, Field

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.governance import OwnershipType
from mlcat_ingest.metadata.urn import FABRICS, PREFIX, build, check, entity_type_of
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error.msg}") from None
    return text


def _fabric(text: str) -> str:
    if text.upper() not in FABRICS:
        raise ValueError(f"is not an environment; one of {', '.join(sorted(FABRICS))}")
    return text.upper()


def _owner_type(text: str) -> str:
    if text in get_args(OwnershipType):
        return text
    if not text.startswith("urn:li:ownershipType:"):
        known = ", ".join(sorted(get_args(OwnershipType)))
        raise ValueError(
            f"is not a kind of ownership; one of {known}, or a URN of an ownershipType"
        )
    try:
        check(text)
    except InvalidUrnError as error:
        raise ValueError(f"cannot be an ownershipType: {error}") from None
    return text


def _reference(entity_type: str, *others: str) -> Callable[[str], str]:
    """Return a validator that reads a URN of one of these types, or a name of the first."""

    def read(text: str) -> str:
        try:
            if not text.startswith(PREFIX):
                return build(entity_type, text)
            if entity_type_of(text) not in {entity_type, *others}:
                raise ValueError(f"has to be a name or a URN of a {entity_type}")
            check(text)
        except InvalidUrnError as error:
            raise ValueError(f"cannot be a {entity_type}: {error}") from None
        return text

    return read


Pattern = Annotated[PublicStr, AfterValidator(_pattern)]
"""A regular expression; it matches from the start of a text, case-sensitively."""

Fabric = Annotated[
    PublicStr, AfterValidator(_fabric), Field(json_schema_extra={"enum": sorted(FABRICS)})
]
"""One of the catalog's 17 environments, in any case."""

OwnerType = Annotated[PublicStr, AfterValidator(_owner_type)]
"""A kind of ownership: one of the catalog's own, or the URN of one that its users defined."""

TagRef = Annotated[PublicStr, AfterValidator(_reference("tag"))]
"""A tag, by name or URN; read into its URN."""

TermRef = Annotated[PublicStr, AfterValidator(_reference("glossaryTerm"))]
"""A glossary term, by id or URN; read into its URN."""

DomainRef = Annotated[PublicStr, AfterValidator(_reference("domain"))]
"""A domain, by id or URN; read into its URN."""

OwnerRef = Annotated[PublicStr, AfterValidator(_reference("corpuser", "corpGroup"))]
"""A user by name, or a user or group by URN; read into its URN."""

PropertyRef = Annotated[PublicStr, AfterValidator(_reference("structuredProperty"))]
"""A structured property, by its qualified name or URN; read into its URN."""


class PatternFilter(RecipeModel):
    """Which names to take: a name that `allow` matches and `deny` does not.

    A pattern matches from the start of the name, case-sensitively; end it with `$` for all of it.
    """

    allow: tuple[Pattern, ...] = (".*",)
    """Regular expressions; a name has to match one of them."""

    deny: tuple[Pattern, ...] = ()
    """Regular expressions; a name that matches one of them is left out."""

    def allows(self, name: str) -> bool:
        """Return whether a thing of this name is wanted."""
        return any(re.match(pattern, name) for pattern in self.allow) and not any(
            re.match(pattern, name) for pattern in self.deny
        )
