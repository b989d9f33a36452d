"""Sightings of aliases: their text, the merge, the answers, and random histories of them."""

import json

import pytest

from mlcat_ingest.metadata.aliases import (
    MOST,
    Sighting,
    answer,
    decode,
    encode,
    listing,
    with_sightings,
)
from simulation.aliases import BREAKS, DAY_MS, failures

EVENT = Sighting("champion", "3", 1_000, 1_002, "event")
WEBHOOK = Sighting("champion", "4", 0, 5_999, "webhook")
PASS = Sighting("champion", "4", 8_000, 9_000)


def test_no_answer_about_random_histories_is_wrong() -> None:
    assert list(failures(range(3_000))) == []


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_rule_makes_some_answer_wrong(rule: str) -> None:
    assert list(failures(range(300), rule)) != []


@pytest.mark.parametrize(
    "text",
    [
        *(None, 3, "", "{", "{}", "[3]", "[[]]", '[["a", "1", 1, "2", "pass"]]', "[" * 10_000),
        *('[["a", "1", 1, 2, "guess"]]', '[["a", "1", 3, 2, "pass"]]'),
        f'[["a", "1", 0, {2**62}, "webhook"]]',
    ],
)
def test_a_text_that_is_no_list_of_sightings_has_none(text: object) -> None:
    assert decode(text) == []


def test_sightings_survive_as_text() -> None:
    odd = Sighting('a"\ud800,', "", 0, 2**47, "webhook")
    assert decode(encode([EVENT, odd])) == [EVENT, odd]


def custom(*sightings: Sighting, **aliases: str) -> dict[str, str]:
    named = {"mlflow.aliases": json.dumps(aliases)} if aliases else {}
    return {"k": "v", **named, "mlcat.alias_log": encode(sightings)}


def test_an_unchanged_pass_adds_nothing_and_an_event_comes_once() -> None:
    read = listing({"champion": "3"}, 1_500, 1_600)
    first = dict(with_sightings(custom(*read, champion="3"), {}))
    assert decode(first["mlcat.alias_log"]) == [Sighting("champion", "3", 1_500, 1_600)]
    again = listing({"champion": "3"}, 2_500, 2_600)
    assert "mlcat.alias_log" not in with_sightings(custom(*again, champion="3"), first)
    drained = with_sightings(custom(EVENT, *again, champion="3"), first)
    assert decode(drained["mlcat.alias_log"]) == [EVENT, *read[1:]]
    assert "mlcat.alias_log" not in with_sightings(custom(EVENT, *again, champion="3"), drained)
    assert with_sightings({"k": "v"}, first) == {"k": "v"}


def test_an_alias_that_is_not_listed_any_more_is_at_no_version() -> None:
    stored = custom(EVENT, champion="3")
    merged = with_sightings(custom(*listing({"next": "1"}, 8_000, 9_000), next="1"), stored)
    gone = Sighting("champion", "", 8_000, 9_000)
    assert decode(merged["mlcat.alias_log"]) == [EVENT, gone, Sighting("next", "1", 8_000, 9_000)]


def test_the_newest_sightings_are_kept() -> None:
    events = [Sighting("a", str(n), n, n, "event") for n in range(MOST + 5)]
    merged = with_sightings(custom(*reversed(events)), custom(EVENT))
    assert decode(merged["mlcat.alias_log"])[:-1] == events[6:]


@pytest.mark.parametrize(
    ("span", "certainty", "shown"),
    [
        ((0, 999), "not known", (None, [], [], EVENT)),
        ((1_000, 1_002), "exact", (None, [EVENT], [], WEBHOOK)),
        ((1_001, 1_001), "interval", (None, [], [EVENT], WEBHOOK)),
        ((1_003, 4_000), "interval", (EVENT, [], [], WEBHOOK)),
        ((5_000, 7_000), "interval", (EVENT, [], [WEBHOOK], PASS)),
        # A webhook that was signed late may be of a move before the event.
        ((6_500, 6_500), "interval", (EVENT, [], [WEBHOOK], PASS)),
        ((7_000, DAY_MS), "exact", (EVENT, [PASS], [WEBHOOK], None)),
        ((9_001, 9_001), "interval", (PASS, [], [], None)),
    ],
)
def test_answers(span: tuple[int, int], certainty: str, shown: tuple[object, ...]) -> None:
    other = Sighting("next", "1", 0, DAY_MS, "event")
    found = answer([PASS, other, EVENT, WEBHOOK], "champion", *span)
    assert found.certainty == certainty
    assert tuple(found) == shown


def test_the_text_of_a_sighting() -> None:
    assert EVENT.window == "at 1970-01-01 00:00:01 UTC (registry event)"
    assert WEBHOOK.window == "at 1970-01-01 00:00:05 UTC or before (webhook)"
    kept = WEBHOOK._replace(by="version")
    assert kept.window == "at 1970-01-01 00:00:05 UTC or before (kept version)"
    assert PASS.window == "between 1970-01-01 00:00:08 and 1970-01-01 00:00:09 UTC (pass)"
    assert (PASS.holder, PASS._replace(version="").holder) == ("version 4", "no version")
