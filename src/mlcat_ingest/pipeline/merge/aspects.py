"""The merge of one aspect: every field that the source says, the others as they are stored."""

from typing import Any, NamedTuple

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.merge.base import NOTHING, Claims
from mlcat_ingest.pipeline.merge.equality import COLLECTIONS, same_json
from mlcat_ingest.pipeline.merge.fields import ClaimedField, first_field, merge_field
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.merge.shape import COMPUTED, FIRST_WRITERS, SERVICE_OWN, required_values

_UNCLAIMED = ClaimedField()


class MergedAspect(NamedTuple):
    """An aspect after the merge, and what of it is ours.

    `value` is the stored aspect itself where nothing changes, and None where the aspect is not, or
    no longer, there. `kept` says that something of ours had to stay, since the aspect would not be
    valid without it and others have entries in it.
    """

    value: Aspect | None
    claims: Claims
    kept: bool = False


def first_aspect(name: str, fresh: Aspect) -> MergedAspect:
    """Return an aspect of which nothing is stored or claimed, as most of a first ingest are."""
    nobodys = FIRST_WRITERS.get(name, ())
    value: dict[str, Any] = {}
    claims: dict[str, str] = {}
    for field, said in fresh.items():
        if said is None:
            continue
        if field in nobodys:
            value[field] = said
            continue
        value[field], claim = first_field(name, field, said)
        if claim:
            claims[field] = claim
    # An aspect of nothing but empty values is not worth writing where there is none.
    return MergedAspect(None if not claims and says_nothing(fresh) else value, claims)


def merge_aspect(
    name: str,
    stored: Aspect | None,
    fresh: Aspect,
    rules: MergeRules,
    ours: Claims = NOTHING,
    others: Claims = NOTHING,
) -> MergedAspect:
    """Return aspect `name` with what others wrote and what the source says.

    `ours` and `others` are the claims of the stored bases. A field that `fresh` leaves out was not
    read: it stays as it is, and so does what we claim of it.
    """
    before: Aspect = NOTHING if stored is None else stored
    claims = {field: text for field, text in ours.items() if field not in fresh}
    changes: dict[str, Any] = {}
    policies, default = rules.policies.get(name, NOTHING), rules.default
    claimed = _UNCLAIMED
    for field, value in fresh.items():
        known = before.get(field)
        if field in FIRST_WRITERS.get(name, ()):
            if known is None:
                changes[field] = value
            continue
        if ours or others:
            claimed = ClaimedField(ours.get(field, ""), others.get(field, ""))
        merged = merge_field(name, field, policies.get(field, default), known, value, claimed)
        if merged.claim:
            claims[field] = merged.claim
        if merged.value is not known:
            changes[field] = merged.value
    if stored is None:
        # An aspect of nothing but empty values is not worth writing where there is none.
        return MergedAspect(None if says_nothing(fresh) else changes, claims)
    return _changed(name, stored, changes, claims, ours)


def without_claims(
    name: str, stored: Aspect, rules: MergeRules, ours: Claims, others: Claims = NOTHING
) -> MergedAspect:
    """Return aspect `name` without what we claim of it, as if the source had nothing there."""
    return merge_aspect(name, stored, dict.fromkeys(ours), rules, ours, others)


def says_nothing(fresh: Aspect) -> bool:
    """Return whether an aspect has fields, and all of them are empty."""
    return bool(fresh) and not any(map(has_content, fresh.values()))


def has_content(value: Any) -> bool:
    """Return whether a value is more than null or an empty collection."""
    return bool(value) or not (value is None or isinstance(value, COLLECTIONS))


def _changed(
    name: str, stored: Aspect, changes: dict[str, Any], claims: dict[str, str], ours: Claims
) -> MergedAspect:
    changes = {
        field: value for field, value in changes.items() if field in stored or has_content(value)
    }
    if changes and name in COMPUTED:
        changes |= dict.fromkeys(COMPUTED[name].intersection(stored))
    cleared = [field for field, value in changes.items() if value is None]
    if not cleared:
        return MergedAspect({**stored, **changes} if changes else stored, claims)
    left = {field: value for field, value in {**stored, **changes}.items() if value is not None}
    missing = required_values(name).intersection(cleared)
    if not missing:
        return MergedAspect(left, claims)
    if not any(has_content(left[field]) for field in left.keys() - SERVICE_OWN.get(name, ())):
        return MergedAspect(None, NOTHING)
    # Without these the aspect is not valid, and somebody else has something in it.
    claims.update((field, ours[field]) for field in missing if field in ours)
    after = {**stored, **changes, **{field: stored[field] for field in missing}}
    kept = {field: value for field, value in after.items() if value is not None}
    return MergedAspect(stored if same_json(kept, stored) else kept, claims, kept=True)
