"""The answer of `when`, as text and as data, and what it says where nothing is known."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from mlcat_ingest.client.base import Reads, Searches, StoredAspect, StoredEntity
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aliases import Sighting, answer, encode
from mlcat_ingest.workflows.when import when, when_data, when_lines
from support.fakes import group_urn, model_urn

GROUP = group_urn("registered:churn")
SET = Sighting("champion", "3", 1_000, 1_002, "event")
GONE = Sighting("champion", "", 5_000, 6_000)
SEEN = Sighting("champion", "4", 8_000, 9_000)


class Catalog(Reads):
    """A catalog of one group, which has these custom properties; it is not searched for a URN."""

    search: Searches

    def __init__(self, **custom: str) -> None:
        self.custom = custom

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        properties = StoredAspect({"customProperties": self.custom})
        return {urn: dict.fromkeys(aspects, properties) for urn in urns}


@pytest.mark.parametrize(
    ("span", "lines"),
    [
        ((0, 999), ["x: not known", "after  version 3     at 1970-01-01 00:00:01 UTC (registry"]),
        ((0, 4_000), ["x: exact, version 3", "within  version 3", "after  no version"]),
        ((0, 9_000), ["x: exact, version 3, then no version, then version 4", *["within  "] * 3]),
        ((2_000, 3_000), ["x: interval, version 3 or no version", "before  ver", "after  no v"]),
        ((5_500, 5_500), ["x: interval, version 3 or no version or version 4", "before", "around"]),
        ((9_500, 9_500), ["x: interval, version 4", "before  version 4"]),
    ],
)
def test_the_verdict_and_its_evidence(span: tuple[int, int], lines: list[str]) -> None:
    found = answer([SET, GONE, SEEN], "champion", *span)
    shown = [line.text.strip() for line in when_lines(found, "x")]
    assert len(shown) >= len(lines)
    for line, begin in zip(shown, lines, strict=False):
        assert line.startswith(begin)


def test_the_move_of_an_event_leaves_the_version_before() -> None:
    found = answer([SEEN, SET._replace(begin_ms=20_000, end_ms=20_001)], "champion", 9_500, 9_500)
    assert next(when_lines(found, "x")).text == "x: interval, version 4"


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (
            [SET, SEEN, SET._replace(begin_ms=9_500, end_ms=9_502)],
            "3, then version 4, then version 3",
        ),
        ([SEEN, SET._replace(begin_ms=8_500, end_ms=8_502)], "4 and version 3"),
        ([SEEN, SEEN._replace(begin_ms=8_500)], "4"),
    ],
)
def test_an_order_is_shown_only_if_it_is_proven(seen: list[Sighting], verdict: str) -> None:
    found = answer(seen, "champion", 0, 10_000)
    assert next(when_lines(found, "x")).text == f"x: exact, version {verdict}"


def test_a_webhook_behind_the_day_may_be_of_a_move_of_that_day() -> None:
    late = Sighting("champion", "5", 0, 12_999, "webhook")
    found = answer(
        [SET, late, SEEN._replace(begin_ms=20_000, end_ms=21_000)], "champion", 5_000, 6_000
    )
    shown = [line.text.strip() for line in when_lines(found, "x")]
    assert shown[0] == "x: interval, version 3 or version 5"
    assert shown[2].startswith("after  version 5     at 1970-01-01 00:00:12 UTC or before")


def test_what_is_no_registered_model_has_no_aliases() -> None:
    with pytest.raises(RecipeError, match="is no registered model"):
        when(Catalog(), "champion", model_urn("churn_1"), 0, 1)


def test_the_data() -> None:
    found = when(Catalog(**{"mlcat.alias_log": encode([SET, SEEN])}), "champion", GROUP, 0, 2_000)
    assert when_data(found) == {
        "certainty": "exact",
        "before": None,
        "across": [],
        "within": [SET._asdict()],
        "after": SEEN._asdict(),
    }


@pytest.mark.parametrize(
    ("custom", "hint"),
    [
        ({}, "alias 'next' of 'urn:li:.*'$"),
        ({"mlcat.alias_log": encode([SET])}, "known are champion"),
        ({"mlflow.aliases": '{"next": "7"}'}, "it is at version 7 now"),
        ({"mlflow.aliases": "[", "mlcat.alias_log": "["}, "alias 'next' of 'urn:li:.*'$"),
    ],
)
def test_an_alias_without_a_history(custom: dict[str, str], hint: str) -> None:
    with pytest.raises(CatalogRequestError, match=hint):
        when(Catalog(**custom), "next", GROUP, 0, 1)
