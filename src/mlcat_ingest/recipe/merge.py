"""The recipe's merge policies: per field of an aspect, who decides what stays."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator

from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.shapes import fields
from mlcat_ingest.recipe.fields import PublicStr

Policy: TypeAlias = Literal["three_way", "union", "ours"]
"""How a field is merged.

`three_way`: what others wrote stays, what the source dropped goes. `union`: everything stays.
`ours`: the source alone decides.
"""

_FORM: Final = "has to be <aspect>.<field>, for example ownership.owners"


def _known_field(place: str) -> str:
    aspect, _, field = place.partition(".")
    if not field:
        raise ValueError(_FORM)
    spec = ASPECTS.get(aspect)
    if spec is None:
        raise ValueError(f"names no aspect that is known{_meant(aspect, ASPECTS)}; it {_FORM}")
    if spec.type is not None and field not in fields(spec.type):
        known = fields(spec.type)
        raise ValueError(f"names no field of {aspect}{_meant(field, known)}")
    takes_no_policy = aspect == STATUS or spec.timeseries or aspect.endswith("Key")
    if takes_no_policy or field in spec.computed | spec.unowned:
        raise ValueError("names a field that is not merged, so no policy applies to it; delete it")
    return place


def _meant(name: str, known: Mapping[str, object]) -> str:
    # The whole of what is written here is kept out of messages, so the nearest name stands alone.
    nearest = get_close_matches(name, known, n=1)
    return f"; did you mean `{nearest[0]}`?" if nearest else ""


FieldName: TypeAlias = Annotated[PublicStr, AfterValidator(_known_field)]
"""A field of an aspect, `<aspect>.<field>`."""


def by_aspect(policies: Mapping[str, Policy]) -> dict[str, dict[str, Policy]]:
    """Return `policies` by aspect, then field."""
    found: dict[str, dict[str, Policy]] = {}
    for place, policy in policies.items():
        aspect, _, field = place.partition(".")
        found.setdefault(aspect, {})[field] = policy
    return found
