"""Fields that are computed from the rest of their aspect, and from what was stored before.

Source: seen on a DataHub server 1.7; `OwnerTypeMap` of its metadata model.
"""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.metadata.aspects.governance import DOMAINS, OWNERSHIP

COMPLETED: Final = frozenset({OWNERSHIP, DOMAINS})
"""The aspects with such fields."""

_SYSTEM_TYPE: Final = "urn:li:ownershipType:__system__"


def complete(
    aspect: str, value: Mapping[str, Any], before: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return the value of one of `COMPLETED` with its computed fields.

    Raises:
        InvalidProposalError: it changes a computed field, and what that is computed from.
    """
    if aspect == OWNERSHIP:
        return _with_owner_types(value)
    return _with_associations(value, before or {})


def _with_owner_types(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an ownership with its owners by type; without owners a map stays as it was sent."""
    types: dict[str, dict[str, None]] = {}
    for owner in value["owners"]:
        named = owner.get("typeUrn") or f"{_SYSTEM_TYPE}{owner['type'].lower()}"
        types.setdefault(named, {})[owner["owner"]] = None
    return (
        {**value, "ownerTypes": {key: [*urns] for key, urns in types.items()}} if types else value
    )


def _with_associations(value: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return domains whose two lists agree: the list that was changed decides."""
    domains, sent = value["domains"], value.get("domainAssociations")
    stored = before.get("domainAssociations")
    if sent is None or sent == stored:
        known = {association["domain"]: association for association in stored or ()}
        made = [known.get(domain, {"domain": domain}) for domain in domains]
        return {**value, "domainAssociations": made}
    if domains and domains != before.get("domains"):
        raise InvalidProposalError("domains and domainAssociations cannot be changed together")
    return {**value, "domains": [association["domain"] for association in sent]}
