"""What holds of every merge, whatever both sides say."""

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.entries import RECORD_KEYS, keys_of
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.merge.aspects import (
    MergedAspect,
    merge_aspect,
)
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.recipe.model import Policy
from support.merging import HOME, RULES, Shelf

words = st.sampled_from("abcdefgh")
scalars = st.one_of(words, st.integers(-3, 3), st.booleans(), st.floats(allow_nan=False))
json_values = st.recursive(
    st.one_of(st.none(), scalars),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
records = st.fixed_dictionaries(
    {"name": words}, optional={"value": words, "unheardOf": json_values}
)
owners = st.fixed_dictionaries(
    {"owner": words, "type": st.sampled_from(["DATAOWNER", "NONE"])},
    optional={"typeUrn": words, "attribution": st.fixed_dictionaries({"source": words})},
)
FIELDS = {
    "groups": st.lists(words, max_size=5),
    "mlFeatures": st.lists(words, max_size=5),
    "hyperParams": st.lists(records, max_size=5),
    "trainingMetrics": st.lists(records, max_size=5),
    "customProperties": st.dictionaries(words, words, max_size=5),
    "description": words,
    "created": st.fixed_dictionaries({"time": st.integers(0, 9)}, optional={"actor": words}),
}
fresh_properties = st.fixed_dictionaries(
    {}, optional={name: st.none() | values for name, values in FIELDS.items()}
)
stored_properties = st.fixed_dictionaries({}, optional={**FIELDS, "unheardOf": json_values})
aspects = st.one_of(
    st.tuples(st.just(HOME), stored_properties, fresh_properties),
    st.tuples(
        st.just("ownership"),
        st.fixed_dictionaries({"owners": st.lists(owners, max_size=5)}),
        st.fixed_dictionaries({"owners": st.lists(owners, max_size=5)}),
    ),
    st.tuples(
        st.sampled_from([HOME, "globalTags", "neverHeardOf"]),
        st.dictionaries(st.sampled_from(["tags", "groups", "x"]), json_values, max_size=3),
        st.dictionaries(st.sampled_from(["tags", "groups", "x"]), json_values, max_size=3),
    ),
)
Case = tuple[str, Aspect, Aspect]
policies: st.SearchStrategy[Policy] = st.sampled_from(["three_way", "union", "ours"])
rules = st.builds(
    lambda chosen: MergeRules(Writer("prod"), {HOME: chosen}),
    st.dictionaries(st.sampled_from(sorted(FIELDS)), policies),
)


def merge(case: Case) -> Aspect:
    value = merge_aspect(*case, RULES).value
    assert value is not None
    return value


def keys(name: str, field: str, entries: list[object]) -> list[object]:
    return list(keys_of(name, field, entries))


@given(aspects)
def test_without_a_base_what_others_wrote_stays(case: Case) -> None:
    name, stored, fresh = case
    merged = merge(case)
    for field, before in stored.items():
        if fresh.get(field) is None:
            assert merged[field] == before
        elif isinstance(before, dict) and isinstance(fresh[field], dict):
            foreign = {k: v for k, v in before.items() if k not in fresh[field]}
            assert all(merged[field][key] == item for key, item in foreign.items())
        elif isinstance(before, list) and isinstance(fresh[field], list):
            ours = set(keys(name, field, fresh[field]))
            theirs = [e for e in before if keys(name, field, [e])[0] not in ours]
            kept = [e for e in merged[field] if keys(name, field, [e])[0] not in ours]
            assert kept == theirs


@given(aspects)
def test_everything_fresh_is_there(case: Case) -> None:
    name, stored, fresh = case
    merged = merge(case)
    for field, value in fresh.items():
        if isinstance(value, list) and value:
            assert set(keys(name, field, value)) <= set(keys(name, field, merged[field]))
        elif isinstance(value, dict) and value:
            assert all(merged[field][key] == item for key, item in value.items())
        elif value not in (None, [], {}):
            assert merged[field] == value
        elif field not in stored:
            assert field not in merged


@given(aspects)
def test_stored_entries_come_first_in_their_order(case: Case) -> None:
    name, stored, fresh = case
    merged = merge(case)
    assert list(merged) == list(dict.fromkeys([*stored, *(f for f in fresh if f in merged)]))
    for field, value in fresh.items():
        before, after = stored.get(field), merged.get(field)
        if isinstance(value, list) and isinstance(before, list):
            assert isinstance(after, list)
            known = list(dict.fromkeys(keys(name, field, before)))
            new = [key for key in keys(name, field, value) if key not in known]
            found = list(dict.fromkeys(keys(name, field, after)))
            assert found == [*known, *dict.fromkeys(new)]
        elif isinstance(value, dict) and isinstance(before, dict):
            assert list(after or ()) == list({**before, **value})


@given(aspects)
def test_merging_again_changes_nothing(case: Case) -> None:
    name, _, fresh = case
    once = merge(case)
    assert merge_aspect(name, once, fresh, RULES).value is once


@given(stored=stored_properties, first=fresh_properties, second=fresh_properties, rules=rules)
def test_every_policy_is_idempotent_and_leaves_absent_fields_alone(
    stored: Aspect, first: Aspect, second: Aspect, rules: MergeRules
) -> None:
    shelf = Shelf(aspects={HOME: stored})
    shelf.ingest({HOME: first}, rules)
    before = {field: value for field, value in shelf.aspects[HOME].items() if field not in second}
    shelf.ingest({HOME: second}, rules)
    before.pop("customProperties", None)
    assert {field: shelf.aspects[HOME].get(field) for field in before} == before
    assert shelf.ingest({HOME: second}, rules).proposals == ()
    for field, value in second.items():
        if rules.policies[HOME].get(field) == "ours" and field != "customProperties":
            written = _once(field, value)
            assert shelf.field(field) == written or not (written or shelf.field(field))


def _once(field: str, value: object) -> object:
    """A list as it is written: an entry that the source repeats is there once."""
    merged = merge_aspect(HOME, None, {field: value}, RULES)
    return (merged.value or {}).get(field)


@given(aspects)
def test_a_claim_is_of_what_is_there(case: Case) -> None:
    name, stored, fresh = case
    merged: MergedAspect = merge_aspect(name, stored, fresh, RULES)
    for field, text in merged.applied.items():
        assert text
        assert len(text) % 6 == 0
        assert field in (merged.value or {})


def test_every_record_key_names_a_list() -> None:
    for aspect, fields in RECORD_KEYS.items():
        for field in fields:
            assert len(keys_of(aspect, field, [{}, {"name": "n", "owner": "o"}])) == 2
