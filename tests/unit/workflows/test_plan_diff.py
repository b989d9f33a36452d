"""Diffs of entities, as they are told to programs and to people."""

from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import UNION
from mlcat_ingest.workflows.plan_diff import diff_entity, diff_merged
from mlcat_ingest.workflows.plan_render import _entity_lines, change_data
from support.fakes import model_urn

URN = model_urn("r1")
HOME = "mlModelProperties"
GONE = {"removed": True}
THERE = {"removed": False}


Pairs = dict[str, tuple[Aspect | None, Aspect | None]]


def data(aspects: Pairs, *, existed: bool = True) -> list[dict[str, Any]]:
    diff = diff_entity(URN, existed=existed, aspects=aspects)
    return [] if diff is None else list(change_data(diff))


def lines(aspects: Pairs, *, existed: bool = True) -> list[str]:
    found = diff_entity(URN, existed=existed, aspects=aspects)
    assert found is not None
    return [line.text for line in _entity_lines(found)]


def fields(aspect: str, old: Aspect | None, new: Aspect | None) -> dict[tuple[str, ...], Any]:
    """Return by field, and entry, the value before and after, or that the order changes."""
    records = data({aspect: (old, new)})
    assert {(one["urn"], one["aspect"], one["action"]) for one in records} <= {
        (URN, aspect, "update")
    }
    return {
        (one["field"], one["entry"]) if "entry" in one else (one["field"],): (
            "reordered" if one.get("reordered") else (one.get("before"), one.get("after"))
        )
        for one in records
    }


def test_entries_are_reported_by_their_keys() -> None:
    old = {
        "name": "a",
        "description": "gone",
        "groups": ["g1", "g2"],
        "customProperties": {"k": "1", "l": "2", "same": "x"},
        "hyperParams": [{"name": "lr", "value": "0.1"}, {"name": "depth", "value": "3"}],
    }
    new = {
        "name": "b",
        "groups": ["g2", "g3"],
        "customProperties": {"k": "7", "same": "x", "m": "3"},
        "hyperParams": [{"name": "lr", "value": "0.2"}, {"name": "depth", "value": "3"}],
        "trainingJobs": ["j"],
    }
    assert fields(HOME, old, new) == {
        ("name",): ("a", "b"),
        ("description",): ("gone", None),
        ("groups", "g1"): ("g1", None),
        ("groups", "g3"): (None, "g3"),
        ("customProperties", "k"): ("1", "7"),
        ("customProperties", "l"): ("2", None),
        ("customProperties", "m"): (None, "3"),
        ("hyperParams", "lr"): (
            {"name": "lr", "value": "0.1"},
            {"name": "lr", "value": "0.2"},
        ),
        ("trainingJobs", "j"): (None, "j"),
    }
    assert lines({HOME: (old, new)}) == [
        f"~ update {URN}",
        "    mlModelProperties",
        "      ~ name: a → b",
        "      - description: gone",
        "      groups",
        "        - g1",
        "        + g3",
        "      customProperties",
        "        ~ k: 1 → 7",
        "        - l: 2",
        "        + m: 3",
        "      hyperParams",
        "        ~ lr: 0.1 → 0.2",
        "      trainingJobs",
        "        + j",
    ]


def test_what_the_service_computes_is_not_shown() -> None:
    owner = {"owner": "urn:li:corpuser:ada", "type": "DATAOWNER"}
    stored = {
        "ownership": StoredAspect({"owners": [owner], "ownerTypes": {"t": [owner["owner"]]}}, "1")
    }
    more = [owner, {**owner, "owner": "urn:li:corpuser:bob"}]
    source = Entity(model_urn("r1"), {"ownership": {"owners": more}})
    diff = diff_merged(merge_entity(source, stored, UNION))
    assert diff is not None
    assert [(one.aspect, field.field) for one in diff.aspects for field in one.fields] == [
        ("ownership", "owners")
    ]


def test_bookkeeping_is_not_shown() -> None:
    old = {"customProperties": {"a": "1", "mlcat.applied.r": "1 {}"}}
    new = {"customProperties": {"a": "1", "mlcat.applied.r": "1 {x}", "mlcat.source": "s"}}
    assert data({HOME: (old, new)}) == []
    assert lines({HOME: (old, new)})[1:] == ["    only internal properties, mlcat.*"]


@pytest.mark.parametrize(
    ("existed", "status", "action"),
    [
        (False, (None, None), "create"),
        (True, (THERE, GONE), "remove"),
        (True, (None, GONE), "remove"),
        (True, (GONE, THERE), "revive"),
        (False, (None, GONE), "create"),
    ],
)
def test_what_happens_to_an_entity(
    existed: bool,  # noqa: FBT001 - a parameter of the test
    status: tuple[Aspect | None, Aspect | None],
    action: str,
) -> None:
    if action != "create":
        (record,) = data({"status": status}, existed=existed)
        removed = action == "remove"
        assert (record["action"], record["before"], record["after"]) == (
            *(action, not removed),
            removed,
        )
    assert lines({"status": status}, existed=existed)[0].split()[1] == action


def test_nothing_happens_to_an_entity_that_ends_as_it_was() -> None:
    assert data({HOME: ({"name": "a"}, {"name": "a"}), "status": (GONE, GONE)}) == []


def test_whole_aspects_come_and_go() -> None:
    versions = {"versionSet": "urn:li:versionSet:(a,b)", "sortId": "1"}
    found = data({"versionProperties": (versions, None), "globalTags": (None, {"tags": []})})
    about = {"kind": "change", "urn": URN, "name": None, "action": "update"}
    gone = {**about, "aspect": "versionProperties"}
    assert found == [
        *({**gone, "field": name, "before": value} for name, value in versions.items()),
        {**about, "aspect": "globalTags", "field": None, "after": {}},
    ]
    assert "    versionProperties (goes)" in lines({"versionProperties": (versions, None)})


def test_another_order_is_a_change_of_a_list_and_none_of_a_map() -> None:
    assert fields(HOME, {"groups": ["a", "b"]}, {"groups": ["b", "a"]}) == {
        ("groups",): "reordered"
    }
    entries = {"a": "1", "b": "2"}
    turned = dict(reversed(entries.items()))
    assert data({HOME: ({"customProperties": entries}, {"customProperties": turned})}) == []
    assert fields("browsePathsV2", {"path": [{"id": "a"}]}, {"path": [{"id": "b"}]}) == {
        ("path",): ([{"id": "a"}], [{"id": "b"}])
    }


def test_entries_of_one_key_are_distinguished() -> None:
    assert fields(HOME, {"groups": ["a", "a"]}, {"groups": ["a"]}) == {
        ("groups", "a #2"): ("a", None)
    }


def test_a_record_shows_what_its_key_does_not_say() -> None:
    owner = {"owner": "urn:li:corpuser:jane", "type": "DATAOWNER"}
    assert lines({"ownership": ({"owners": []}, {"owners": [owner]})})[2:] == [
        "      owners",
        "        + urn:li:corpuser:jane DATAOWNER",
    ]


def test_a_terminal_is_shown_little_of_much_and_nothing_to_act_on() -> None:
    many = {"customProperties": {f"k{n:02}": "v" for n in range(12)}, "description": "x\x1b" * 99}
    shown = lines({HOME: (None, many)}, existed=False)
    assert "        … and 2 more" in shown
    assert all(len(line) < 600 for line in shown)
    assert "\x1b" not in "".join(shown)


def test_an_entity_is_shown_with_what_people_call_it() -> None:
    pairs: Pairs = {HOME: ({"name": "a"}, {"name": "b"})}
    found = diff_entity(URN, existed=True, aspects=pairs, label="forest 3 (churn)")
    assert found is not None
    assert next(_entity_lines(found)).text == f"~ update {URN} forest 3 (churn)"
    assert [one["name"] for one in change_data(found)] == ["forest 3 (churn)"]


def test_one_time_in_several_fields_is_one_line() -> None:
    time = 1_795_379_898_486
    new = {"name": "a", "createdAt": time, "created": {"time": time}, "lastModified": {"time": 1}}
    shown = lines({HOME: ({}, new)})
    assert "      + createdAt, created: 2026-11-22T20:38:18.486+00:00" in shown
    assert '      + lastModified: {"time": 1}' in shown
    later = {"createdAt": time, "created": {"time": time + 1}}
    assert len(lines({HOME: (later, {**later, "lastModified": {"time": time}})})) == 3


def test_times_are_dates_for_people_and_numbers_for_programs() -> None:
    old = {"createdAt": 1_795_379_898_486, "lastModified": {"time": 1_000, "actor": "urn:li:x"}}
    dated = "\n".join(lines({HOME: ({"date": 1_795_379_898_486}, {"date": 1_795_379_899_000})}))
    assert "date: 2026-11-22T20:38:18.486+00:00 → 2026-11-22T20:38:19.000+00:00" in dated
    stamp = {"time": 1_795_379_898_000, "actor": "urn:li:x"}
    new = {"createdAt": 1_795_379_899_000, "lastModified": stamp, "version": 1_795_379_898_486}
    shown = "\n".join(lines({HOME: (old, new)}))
    assert "createdAt: 2026-11-22T20:38:18.486+00:00 → 2026-11-22T20:38:19.000+00:00" in shown
    assert '"time": "2026-11-22T20:38:18.000+00:00"' in shown
    assert "version: 1795379898486" in shown
    values = fields(HOME, old, new)
    assert values["createdAt",] == (1_795_379_898_486, 1_795_379_899_000)
    assert values["lastModified",][1] == stamp


def test_a_text_of_several_lines_is_shown_as_it_stands() -> None:
    new = "# Model\n\nbetter\x1b[31m\n" + "\n".join(map(str, range(20)))
    assert lines({HOME: ({"description": "old"}, {"description": new})})[2:] == [
        "      ~ description:",
        "          - old",
        "          + # Model",
        "          +",
        "          + better\\u001b[31m",
        *(f"          + {number}" for number in range(7)),
        "          + … and 13 more lines",
    ]
