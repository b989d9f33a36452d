"""Rules of a recipe: enrichment of matching entities, and the merge policy of each field."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    model_validator,
)

from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.declaration import fields
from mlcat_ingest.metadata.registry import ASPECTS
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

_Values = Annotated[tuple[StrictFloat | str, ...], Field(min_length=1)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


def _or_alone(kind: Any) -> BeforeValidator:
    """Return the validator of a list that takes one `kind` without a list, too."""
    return BeforeValidator(_as_list, json_schema_input_type=kind | tuple[kind, ...])


def _owner(value: Any) -> Any:
    return {"owner": value} if isinstance(value, str) else value


class Match(RecipeModel):
    """The condition of a rule: an entity has to fulfil all of it; an empty one matches all.

    A pattern matches from the start of the text, case-sensitively; end it with `$` for all of it.
    """

    entity: Annotated[tuple[EntityType, ...], _or_alone(EntityType)] = ()
    """Entity type, or a list of them."""

    name: Pattern | None = None
    """Regular expression for the display name, or for the name in the URN if there is none."""

    urn: Pattern | None = None
    """Regular expression for the URN."""

    properties: dict[PublicStr, Pattern] = Field(default_factory=dict)
    """Regular expressions for custom properties, by key, such as `team: growth` for that tag. An
    entity without the property does not match."""


class OwnerRule(RecipeModel):
    """An owner to add."""

    owner: OwnerRef
    """User name, or the URN of a user or a group."""

    type: OwnerType = "TECHNICAL_OWNER"
    """Ownership type."""


class EnrichRule(RecipeModel):
    """An enrichment: additions to the entities that match, beside the entries of others.

    They are removed together with the rule. An addition that an entity's type cannot have is the
    note `rule_does_not_fit` in the report.
    """

    key_hints: ClassVar[Mapping[str, str]] = {
        "remove_tags": "is not available: the merge removes entries that no rule adds any more",
        "add_domain": "is called `set_domain`",
        "type": "is a list of rules without types here; see `add_tags`, `add_owners` and so on",
    }

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in _ADDITIONS]}
    )

    match: Match = Match()
    """The condition that an entity has to fulfil."""

    add_tags: Annotated[tuple[TagRef, ...], _or_alone(TagRef)] = ()
    """Tags, by name or URN; created if the catalog lacks them."""

    add_terms: Annotated[tuple[TermRef, ...], _or_alone(TermRef)] = ()
    """Glossary terms, by id or URN."""

    set_domain: DomainRef | None = None
    """A domain, by id or URN; it follows a domain that a user has chosen."""

    add_owners: tuple[
        Annotated[OwnerRule, BeforeValidator(_owner, json_schema_input_type=OwnerRule | OwnerRef)],
        ...,
    ] = ()
    """Owners: names of users, URNs, or `{owner: …, type: …}`."""

    structured_properties: dict[
        PropertyRef,
        Annotated[
            _Values, BeforeValidator(_as_list, json_schema_input_type=StrictFloat | str | _Values)
        ],
    ] = Field(default_factory=dict)
    """Values of structured properties, texts and numbers, by the property's qualified name or URN.
    If several rules match, the last one sets a property."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not any(getattr(self, name) for name in _ADDITIONS):
            raise ValueError(f"adds nothing; use one of {', '.join(_ADDITIONS)}")
        return self


Policy: TypeAlias = Literal["three_way", "union", "ours"]
"""How a field is merged.

`three_way`: entries of others stay, dropped entries of the source go. `union`: all entries stay.
`ours`: the source alone decides.
"""

_FORM: Final = "must be <aspect>.<field>, for example ownership.owners"


def _known_field(place: str) -> str:
    aspect, _, field = place.partition(".")
    if not field:
        raise ValueError(_FORM)
    spec = ASPECTS.get(aspect)
    if spec is None:
        raise ValueError(f"has an unknown aspect{_suggestion(aspect, ASPECTS)}; it {_FORM}")
    if spec.type is not None and field not in fields(spec.type):
        known = fields(spec.type)
        raise ValueError(f"has an unknown field of {aspect}{_suggestion(field, known)}")
    takes_no_policy = aspect == STATUS or spec.timeseries or aspect.endswith("Key")
    if takes_no_policy or field in spec.computed | spec.unowned:
        raise ValueError("has a field that is never merged; delete it")
    return place


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    # Messages never echo a value of the recipe, so they give the nearest name only.
    nearest = get_close_matches(name, known, n=1)
    return f"; did you mean `{nearest[0]}`?" if nearest else ""


FieldName: TypeAlias = Annotated[PublicStr, AfterValidator(_known_field)]
"""A field of an aspect, `<aspect>.<field>`."""


def by_aspect(policies: Mapping[str, Policy]) -> dict[str, dict[str, Policy]]:
    """Return `policies` by aspect, then field."""
    grouped: dict[str, dict[str, Policy]] = {}
    for place, policy in policies.items():
        aspect, _, field = place.partition(".")
        grouped.setdefault(aspect, {})[field] = policy
    return grouped
