"""What people call an entity, in the texts that name it."""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import decoded_parts, entity_type_of

_REGISTERED = "registered:"


def label_of(urn: str, properties: Mapping[str, Any] | None) -> str | None:
    """Return the name in an entity's properties, and its experiment's: `forest 3 (churn)`.

    The name of a group is followed by the one in its URN if they differ: an experiment and a
    registered model, or the experiments of two workspaces, may have the same name.
    """
    name = (properties or {}).get("name")
    if not isinstance(name, str) or not name:
        return None
    if entity_type_of(urn) == "mlModelGroup":
        in_urn = name_in(urn)
        return name if name == in_urn else f"{name} ({in_urn})"
    groups = [name_in(group) for group in (properties or {}).get("groups") or ()]
    # The experiment first: a registered version is in the group of its model, too.
    groups.sort(key=lambda group: group.startswith(_REGISTERED))
    return f"{name} ({groups[0]})" if groups else name


def with_label(urn: str, label: str | None) -> str:
    """Return a URN with the label behind it, where there is one."""
    return urn if label is None else f"{urn} {label}"


def name_in(urn: Any) -> str:
    """Return the name in a URN, or the text itself if it is none of a known kind."""
    try:
        parts = decoded_parts(urn)
    except (InvalidUrnError, TypeError):
        return str(urn)
    return parts[1] if len(parts) > 1 else parts[0]
