"""Runs that Feast itself tagged get exactly the features that they used: each trap, by its name."""

import pytest

from mlcat_ingest.links.index import Features
from mlcat_ingest.links.rules import Evidence, LinkOptions, Links, feast_tags, resolve, verify
from support.feast_runs import (
    WIDE,
    WIDE_VIEW,
    feature_urn,
    recorded,
    recorded_runs,
    registry_index,
)

FEATURES = Features([registry_index()])
STATS = "driver_hourly_stats"
OF_SERVICE_V1 = (
    feature_urn(STATS, "acc_rate"),
    feature_urn(STATS, "conv_rate"),
    feature_urn("transformed", "conv_rate_doubled"),
)


def links(name: str, columns: frozenset[str] | None = None, file: str | None = None) -> Links:
    run = recorded(name)
    found = Evidence(
        feast=feast_tags(run["tags"], run["params"]), columns=columns, features_file=file
    )
    candidate, problems = resolve(found, FEATURES, LinkOptions())
    assert problems == []
    return verify(candidate, lambda _: True, dangling=False)


@pytest.mark.parametrize(
    ("name", "urns"),
    [
        ("guessed_service", (feature_urn(STATS, "acc_rate"),)),
        (
            "last_retrieval_wins",
            (feature_urn(STATS, "avg_daily_trips"), feature_urn(STATS, "conv_rate")),
        ),
        (
            "stale_service",
            (feature_urn(f"{STATS}_fresh", "conv_rate"), feature_urn(WIDE_VIEW, WIDE[0])),
        ),
        ("service", OF_SERVICE_V1),
        ("with_model", OF_SERVICE_V1),
        ("on_demand", (feature_urn("transformed", "conv_rate_doubled"),)),
        (
            "alias",
            tuple(
                feature_urn(table, feature)
                for table in (STATS, f"{STATS}_fresh")
                for feature in ("acc_rate", "avg_daily_trips", "conv_rate")
            ),
        ),
    ],
)
def test_a_run_has_the_features_of_its_last_retrieval_and_no_others(
    name: str, urns: tuple[str, ...]
) -> None:
    assert links(name) == Links("feast.feature_refs", urns)


def test_a_guessed_service_is_not_expanded() -> None:
    assert recorded("guessed_service")["tags"]["feast.feature_service"] == "driver_activity_v1"
    assert len(links("guessed_service").urns) == 1


def test_a_service_tag_of_an_earlier_retrieval_is_not_looked_at() -> None:
    assert recorded("stale_service")["tags"]["feast.feature_service"] == "driver_activity_v1"
    assert not set(links("stale_service").urns) & set(OF_SERVICE_V1)


def test_references_cut_at_4990_characters_are_those_of_the_service_and_flagged() -> None:
    tags = recorded("cut")["tags"]
    assert len(tags["feast.feature_refs"]) == 4990
    assert tags["feast.feature_refs"][4987:] == "..."
    assert tags["feast.feature_count"] == "200"
    found = links("cut")
    assert found.rule == "feast.feature_service"
    assert found.urns == tuple(feature_urn(WIDE_VIEW, name) for name in WIDE)
    assert found.approximate == (
        "its references are truncated; the references are those of the service driver_wide today"
    )


def test_references_cut_where_no_service_has_them_are_linked_as_far_as_they_are_whole() -> None:
    found = links("cut_without_service")
    listed = recorded("cut_without_service")["tags"]["feast.feature_refs"].split(",")
    assert found.rule == "feast.feature_refs"
    assert found.urns == tuple(feature_urn(*ref.split(":")) for ref in listed[:-1])
    assert found.approximate == f"its references are truncated: {len(listed) - 1} of 200 are known"


def test_a_file_made_from_cut_references_is_as_cut_as_they_are() -> None:
    text = recorded("cut")["artifacts"]["feast_features.json"]
    assert links("cut", file=text).rule == "feast.feature_service"


def test_columns_with_full_feature_names_narrow_to_the_inputs_of_the_model() -> None:
    found = links("full_feature_names", frozenset({"driver_hourly_stats__conv_rate"}))
    assert found.urns == (feature_urn(STATS, "conv_rate"),)


def test_columns_under_an_alias_narrow_to_the_inputs_of_the_model() -> None:
    found = links("alias", frozenset({"newest__conv_rate", "driver_hourly_stats__acc_rate"}))
    assert found.urns == (
        feature_urn(STATS, "acc_rate"),
        feature_urn(f"{STATS}_fresh", "conv_rate"),
    )


@pytest.mark.parametrize("name", ["online", "prediction", "no_feast"])
def test_what_was_asked_for_online_was_not_trained_with(name: str) -> None:
    assert links(name) == Links()


def test_operations_of_feast_are_no_training_runs() -> None:
    operations = [run["name"] for run in recorded_runs() if "feast.operation" in run["tags"]]
    assert operations == ["apply_rides", "materialize_rides"]
    assert [links(name) for name in operations] == [Links(), Links()]
