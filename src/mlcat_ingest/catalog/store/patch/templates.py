"""What patches may take for granted: the keys of known arrays, and what an absent aspect is.

Source: the patch templates of DataHub's metadata model 1.7.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias, get_origin

from mlcat_ingest.catalog.store.patch.keyed import KeyPaths, Path
from mlcat_ingest.metadata.aspects.common import AuditStamp
from mlcat_ingest.metadata.aspects.untyped import CHART_INFO, DASHBOARD_INFO, SIBLINGS
from mlcat_ingest.metadata.registry import ASPECTS, DECLARED, defaults
from mlcat_ingest.metadata.shapes import fields

ArrayKeys: TypeAlias = Mapping[Path, KeyPaths]
"""The key parts of arrays, by the fields that lead to each array."""

_NESTED: Final = "\u241f"


def key_path(name: str) -> Path:
    """Return where a key field is in an entry; a name with U+241F leads into a nested object."""
    return tuple(name.split(_NESTED))


@cache
def template_keys(aspect: str) -> ArrayKeys:
    """Return the keys by which a patch without any addresses the arrays of `aspect`."""
    spec = DECLARED.get(aspect)
    return MappingProxyType(
        {
            tuple(array.split(".")): tuple(key_path(name) for name in names.split())
            for array, names in ({} if spec is None else spec.patch_keys).items()
        }
    )


@cache
def is_list(aspect: str, field: str) -> bool:
    """Return whether a field of `aspect` holds an array."""
    spec = ASPECTS.get(aspect)
    if spec is None or spec.type is None:
        return False
    declared = fields(spec.type).get(field)
    return declared is not None and get_origin(declared.hint) is list


def blank(aspect: str, actor: str, now_ms: int) -> dict[str, Any]:
    """Return what a patch of an `aspect` that is not there starts from, as a fresh value.

    These are the fields that the service fills in (maps among them), required arrays without
    entries, and required stamps of this moment.
    """
    stamp = {"time": now_ms, "actor": actor}
    keyed: dict[str, Any] = {path[0]: [] for path in template_keys(aspect) if len(path) == 1}
    spec = ASPECTS.get(aspect)
    if spec is None or spec.type is None:
        return keyed | _required(aspect, stamp)
    known = fields(spec.type)
    value = defaults(aspect) | {name: array for name, array in keyed.items() if name in known}
    for field in known.values():
        if field.required and field.name not in value:
            if field.hint is AuditStamp:
                value[field.name] = stamp
            elif get_origin(field.hint) is list:
                value[field.name] = []
    return value


def _required(aspect: str, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """Return what clients require of aspects whose declaration we do not have."""
    if aspect in {CHART_INFO, DASHBOARD_INFO}:
        changes = {"created": stamp, "lastModified": stamp}
        return {"title": "", "description": "", "lastModified": changes}
    return {"primary": False} if aspect == SIBLINGS else {}
