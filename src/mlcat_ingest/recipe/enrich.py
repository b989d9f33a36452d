"""Rules that add what a source cannot know: tags, terms, a domain, owners, typed properties."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictFloat, model_validator

from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.values import (
    DomainRef,
    OwnerRef,
    OwnerType,
    Pattern,
    PropertyRef,
    TagRef,
    TermRef,
)

_ADDITIONS = ("add_tags", "add_terms", "set_domain", "add_owners", "structured_properties")

EntityType = Literal["mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature", "mlPrimaryKey"]


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


def _owner(value: Any) -> Any:
    return {"owner": value} if isinstance(value, str) else value


class Match(RecipeModel):
    """Which entities a rule is for: those that fulfil all of it; every entity where it is empty.

    A pattern matches from the start of the text, case-sensitively; end it with `$` for all of it.
    """

    entity: Annotated[tuple[EntityType, ...], BeforeValidator(_several)] = ()
    """Entity types, one or a list."""

    name: Pattern | None = None
    """A regular expression for the name that people see, else the name in the URN."""

    urn: Pattern | None = None
    """A regular expression for the URN."""

    properties: dict[PublicStr, Pattern] = Field(default_factory=dict)
    """Regular expressions for custom properties, by key, such as `team: growth` for that tag. What
    lacks a property does not match, whatever the expression."""


class OwnerRule(RecipeModel):
    """An owner to add."""

    owner: OwnerRef
    """The name of a user, or the URN of a user or a group."""

    type: OwnerType = "TECHNICAL_OWNER"
    """Kind of ownership."""


class EnrichRule(RecipeModel):
    """What is added to the entities that match; what others put there stays.

    It goes when the rule goes. What an entity's type cannot have is the note `rule_does_not_fit` in
    the report.
    """

    key_hints: ClassVar[Mapping[str, str]] = {
        "remove_tags": "is not offered: rules add, and the merge removes what a rule stops adding",
        "add_domain": "is called `set_domain`",
        "type": "is a list of rules here, without types; see `add_tags`, `add_owners`, ...",
    }

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in _ADDITIONS]}
    )

    match: Match = Match()
    """Which entities the rule is for."""

    add_tags: Annotated[tuple[TagRef, ...], BeforeValidator(_several)] = ()
    """Tags, by name or URN; made where the catalog lacks them."""

    add_terms: Annotated[tuple[TermRef, ...], BeforeValidator(_several)] = ()
    """Glossary terms, by id or URN."""

    set_domain: DomainRef | None = None
    """A domain, by id or URN; where people chose one, theirs stays first and this one follows."""

    add_owners: tuple[Annotated[OwnerRule, BeforeValidator(_owner)], ...] = ()
    """Owners: names of users, URNs, or `{owner: …, type: …}`."""

    structured_properties: dict[
        PropertyRef,
        Annotated[tuple[StrictFloat | str, ...], Field(min_length=1), BeforeValidator(_several)],
    ] = Field(default_factory=dict)
    """Values of structured properties, texts and numbers, by the property's qualified name or URN.
    Of several rules that match, the last one says the values of a property."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not any(getattr(self, name) for name in _ADDITIONS):
            raise ValueError(f"adds nothing; give it one of {', '.join(_ADDITIONS)}")
        return self
