"""The answer of `when`, as text and as data, and what it says where nothing is known."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.client.base import Reads, Searches, StoredAspect, StoredEntity
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aliases import Sighting, answer, encode
from mlcat_ingest.metadata.passport import KeptVersion
from mlcat_ingest.workflows.when import in_versions, when, when_data, when_lines
from support.catalog_server import running_catalog
from support.catalog_store import put
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
        (
            (2_000, 3_000),
            ["x: interval, nearest proof: version 3 or", "before  ver", "after  no v"],
        ),
        (
            (5_500, 5_500),
            ["x: interval, nearest proof: version 3 or no version or", "before", "around"],
        ),
        ((9_500, 9_500), ["x: interval, nearest proof: version 4", "before  version 4"]),
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
    assert next(when_lines(found, "x")).text == "x: interval, nearest proof: version 4"


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
    assert shown[0] == "x: interval, nearest proof: version 3 or version 5"
    assert shown[2].startswith("after  version 5     at 1970-01-01 00:00:12 UTC or before")


def test_what_is_no_registered_model_has_no_aliases() -> None:
    with pytest.raises(RecipeError, match="is no registered model"):
        when(Catalog(), "champion", model_urn("churn_1"), 0, 1)


def test_the_data() -> None:
    found = when(Catalog(**{"mlcat.alias_log": encode([SET, SEEN])}), "champion", GROUP, 0, 2_000)
    shown = {"within": [SET._asdict()], "after": SEEN._asdict()}
    assert when_data(found) == {"certainty": "exact", "before": None, "across": [], **shown}


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


def kept(number: int, aliases: str, writer: str = "recipe r") -> KeptVersion:
    custom = {"mlflow.registered_model": "churn", "mlflow.aliases": aliases}
    return KeptVersion(number, {"customProperties": custom}, number * 1_000, writer)


KEPT = [
    kept(6, '{"b": "1"}'),
    kept(5, '{"a": "2"}'),
    kept(4, '{"a": "2"}'),
    kept(3, '{"a": "1"}'),
    kept(2, '{"a": "9"}', "user recipe"),
    KeptVersion(1, {"name": "churn"}, 1_000, "recipe r"),
]


def shown(versions: Sequence[KeptVersion]) -> list[tuple[str, str, int]]:
    found = list(in_versions(versions))
    assert all((one.begin_ms, one.by) == (0, "version") for one in found)
    return [(one.alias, one.version, one.end_ms) for one in found]


def test_a_kept_version_proves_what_its_recipe_has_found_changed() -> None:
    assert shown(KEPT) == [
        ("a", "", 6_000),
        ("b", "1", 6_000),
        ("a", "2", 4_000),
        ("a", "1", 3_000),
    ]
    assert shown(KEPT[:3]) == [("a", "", 6_000), ("b", "1", 6_000)]
    assert shown([KEPT[0], *KEPT[2:]]) == shown(KEPT)[2:]
    assert shown([KEPT[3]._replace(number=1)]) == [("a", "1", 3_000)]
    assert shown([KEPT[3]._replace(number=1, written_ms=None)]) == []
    assert shown([KEPT[3]._replace(number=1, writer="user ada")]) == []


@pytest.mark.parametrize(
    "unread", [kept(5, '{"a": "2'), KeptVersion(5, {"name": "churn"}, 5_000, "recipe r")]
)
def test_a_kept_version_with_cut_aliases_or_without_its_model_proves_nothing(
    unread: KeptVersion,
) -> None:
    assert shown([KEPT[0], unread, *KEPT[2:]]) == shown(KEPT)[2:]


@pytest.mark.process
def test_a_stage_is_answered_by_the_tags_of_all_versions(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog.db") as catalog, CatalogClient(catalog.url) as client:
        team, of_churn = group_urn("team"), {"mlflow.registered_model": "churn"}
        put(catalog.store, GROUP, mlModelGroupProperties={"customProperties": of_churn})
        put(catalog.store, team, mlModelGroupProperties={"name": "team"})
        moves = ("1 production r", "2 other r", "1 archived r", "2 production r", "3 staging ")
        for move in (*moves, "9 production r fraud", "unnamed production r"):
            number, stage, recipe, *other = move.split(" ")
            model, by = other[0] if other else "churn", {"pipelineName": recipe}
            urn, tag = model_urn(f"{model}_{number}"), {"versionTag": number}
            named = {
                "versionSet": f"urn:li:versionSet:({model},mlModel)",
                "version": {} if number == "unnamed" else tag,
                "sortId": number,
            }
            custom = {"mlflow.registered_model": model}
            properties = {"groups": [GROUP, team], "customProperties": custom}
            put(catalog.store, urn, mlModelProperties=properties, versionProperties=named)
            tags = {"tags": [{"tag": f"urn:li:tag:mlflow_{stage}"}]}
            catalog.store.write([Write(urn, "globalTags", tags, system_metadata=by)])
        found = when(client, "Production", GROUP, 2**42, 2**42)
        assert found.certainty == "interval"
        proven = [one for one in (found.before, *found.across) if one]
        holders = sorted(one.holder for one in proven)
        assert holders == ["not version 1", "version 1", "version 2"]
        assert {(one.begin_ms, one.by) for one in proven} == {(0, "version")}
        assert when(client, "production", GROUP, 0, 1).certainty == "not known"
        # A tag that a person set says nothing of MLflow.
        with pytest.raises(CatalogRequestError, match="no history of alias 'Staging'"):
            when(client, "Staging", GROUP, 2**42, 2**42)
        # The versions in a person's group are of other models.
        with pytest.raises(CatalogRequestError, match="no history of alias 'Production'"):
            when(client, "Production", team, 2**42, 2**42)
        # An alias may have the name of a stage.
        alias = SET._replace(alias="Production")
        custom = {"mlcat.alias_log": encode([alias])}
        put(catalog.store, GROUP, mlModelGroupProperties={"customProperties": custom})
        assert when(client, "Production", GROUP, 2**42, 2**42).before == alias
