"""A diff applied to what is stored gives what would be stored, but for `mlcat.*`."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.codec import canonical
from mlcat_ingest.metadata.diff import ABSENT, FieldDiff, diff_aspect, entries_of
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from support.fakes import model_urn

HOME = "mlModelProperties"
names = st.lists(st.sampled_from("abcd"), max_size=4)
texts = st.sampled_from(["", "x", "y"])
aspects = st.fixed_dictionaries(
    {},
    optional={
        "name": texts,
        "description": texts,
        "groups": names,
        "customProperties": st.dictionaries(st.sampled_from(["a", "b", "mlcat.x"]), texts),
        "hyperParams": names.map(lambda some: [{"name": one, "value": one} for one in some]),
        "trainingMetrics": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("ab"), "value": texts}), max_size=3
        ),
        "version": st.fixed_dictionaries({"versionTag": texts}),
    },
)


def applied(stored: Aspect, fields: tuple[FieldDiff, ...]) -> dict[str, Any]:
    result = dict(stored)
    for one in fields:
        if one.collection:
            result[one.field] = _collection(one, stored.get(one.field))
        elif one.changes[0].new is ABSENT:
            del result[one.field]
        else:
            result[one.field] = one.changes[0].new
    return result


def _collection(one: FieldDiff, before: Any) -> Any:
    is_map = isinstance(before, dict) or one.field == "customProperties"
    entries = dict(before or {}) if is_map else entries_of(HOME, one.field, before or [])
    for label, old, new in one.changes:
        if old is not ABSENT:
            assert entries[label] == old
        if new is ABSENT:
            del entries[label]
        else:
            entries[label] = new
    return entries if is_map else list(entries.values())


def without_own(aspect: Aspect) -> dict[str, Any]:
    custom = {k: v for k, v in aspect.get("customProperties", {}).items() if k[:6] != "mlcat."}
    kept = {**aspect, "customProperties": custom}
    # That an empty collection is there or not is for the aspect to say, and no change of entries.
    return {field: value for field, value in kept.items() if value not in ([], {})}


def as_set(entries: list[Any]) -> list[bytes]:
    return sorted(map(canonical, entries))


@given(aspects, aspects)
def test_applying_a_diff_gives_the_new_aspect(old: Aspect, new: Aspect) -> None:
    found = diff_aspect(HOME, old, new)
    fields = () if found is None else found.fields
    result = without_own(applied(old, fields))
    expected = without_own(new)
    reordered = {one.field for one in fields if one.reordered}
    for field in reordered:
        assert as_set(result.pop(field)) == as_set(expected.pop(field))
    assert result == expected


@given(aspects, aspects)
def test_a_merge_of_three_never_moves_what_is_there(stored: Aspect, fresh: Aspect) -> None:
    urn = model_urn("r")
    merged = merge_entity(
        Entity(urn, {HOME: fresh}), {HOME: StoredAspect(stored)}, MergeRules(Writer("w"))
    )
    for proposal in merged.proposals:
        found = diff_aspect(proposal.aspect_name, stored, proposal.aspect)
        for field in () if found is None else found.fields:
            assert not field.reordered
        assert without_own(applied(stored, () if found is None else found.fields)) == without_own(
            proposal.aspect
        )


@given(aspects)
def test_nothing_differs_from_itself(aspect: Aspect) -> None:
    assert diff_aspect(HOME, aspect, dict(aspect)) is None
