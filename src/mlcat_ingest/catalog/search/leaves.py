"""What one criterion comes down to, with its forms in the index's language and in SQL."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Select, false, not_, select, true

from mlcat_ingest.catalog.schema.search_tables import (
    EVERY,
    fts,
    keyword_token,
    member,
    profile,
    searched,
)

EVERYWHERE: Final = f'"{EVERY}"'
"""The expression that matches every entity."""

NOWHERE: Final = '"=none"'
"""The expression that matches none."""


@dataclass(frozen=True, slots=True)
class Always:
    """It holds of every entity, or else of none."""

    holds: bool

    def match(self) -> str:
        """Return the expression that matches."""
        return EVERYWHERE if self.holds else NOWHERE

    def where(self, _entity_id: ColumnElement[int], *, each: bool) -> ColumnElement[bool]:
        """Return the condition on an entity."""
        del each
        return true() if self.holds else false()

    def of_profile(self) -> ColumnElement[bool]:
        """Return the condition on a profile."""
        return true() if self.holds else false()


@dataclass(frozen=True, slots=True)
class Keywords:
    """The entity has one of these keywords: those in `among`, whose `numbers` are these if few."""

    among: Select[tuple[int]]
    numbers: tuple[int, ...] | None

    def match(self) -> str | None:
        """Return the expression that matches, None where there are too many keywords for one."""
        if self.numbers is None:
            return None
        tokens = " OR ".join(f'"{keyword_token(number)}"' for number in self.numbers)
        return f"({tokens})" if tokens else NOWHERE

    def where(self, _entity_id: ColumnElement[int], *, each: bool) -> ColumnElement[bool]:
        """Return the condition on an entity that `search_entity` is joined to."""
        del each
        return self._of(searched.c.profile_id)

    def of_profile(self) -> ColumnElement[bool]:
        """Return the condition on a profile."""
        return self._of(profile.c.id)

    def _of(self, profile_id: ColumnElement[int]) -> ColumnElement[bool]:
        wanted = self.among if self.numbers is None else self.numbers
        having = select(member.c.profile_id).where(member.c.keyword_id.in_(wanted))
        return profile_id.in_(having)


@dataclass(frozen=True, slots=True)
class Matching:
    """The texts of the entity match an expression of the full-text index."""

    expression: str

    def match(self) -> str:
        """Return the expression."""
        return f"({self.expression})"

    def where(self, entity_id: ColumnElement[int], *, each: bool) -> ColumnElement[bool]:
        """Return the condition on an entity."""
        del each
        return entity_id.in_(matching(self.expression))

    def of_profile(self) -> None:
        """Return None: a profile does not say."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Something that only SQL can tell.

    `check` makes the condition on the entity with an id, `among` finds all that have it.
    """

    check: Callable[[ColumnElement[int]], ColumnElement[bool]]
    among: Select[tuple[int]]

    def match(self) -> None:
        """Return None: the full-text index does not know."""

    def where(self, entity_id: ColumnElement[int], *, each: bool) -> ColumnElement[bool]:
        """Return the condition on an entity: looked at `each` by itself, or all found before."""
        return self.check(entity_id) if each else entity_id.in_(self.among)

    def of_profile(self) -> None:
        """Return None: a profile does not say."""


Leaf: TypeAlias = Always | Keywords | Matching | Holding


class RequiredLeaf(NamedTuple):
    """A leaf that has to hold, or must not."""

    leaf: Leaf
    negated: bool = False

    def where(self, entity_id: ColumnElement[int], *, each: bool) -> ColumnElement[bool]:
        """Return the condition on an entity that `search_entity` is joined to."""
        condition = self.leaf.where(entity_id, each=each)
        return not_(condition) if self.negated else condition

    def of_profile(self) -> ColumnElement[bool] | None:
        """Return the condition on a profile, None where a profile does not say."""
        condition = self.leaf.of_profile()
        return not_(condition) if self.negated and condition is not None else condition


def matching(expression: str) -> Select[Any]:
    """Return the query for the ids of the entities whose texts match `expression`."""
    return select(fts.c.rowid).where(fts.c.search_fts.op("MATCH")(expression))
