"""The file of releases and the page about them say what the SDKs of the releases have."""

from importlib.metadata import version

import pytest

from compat.releases.matrix import (
    AHEAD,
    COMMAND,
    NEWEST,
    PAGE,
    SERVERS,
    Model,
    as_csv,
    golden_paths,
    model_of,
    page_with,
    release_of,
    row_is_dropped,
    row_name,
    tables,
    unknown_to,
)
from mlcat_ingest.client.rest.capabilities import NEW_TYPES, Capabilities
from mlcat_ingest.metadata.declaration import RECORDS_FILE, SCHEMA_FILE
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from support.gms.releases import Release, known_part, releases

OLD = f"write it anew: {COMMAND}"
PROPERTIES = {name: kind.properties for name, kind in ENTITY_TYPES.items()}
RELEASES = {one.sdk: one for one in releases()}
OTHERS = [sdk for sdk in (*SERVERS, *NEWEST) if sdk != NEWEST[-1]]


@pytest.fixture(scope="session")
def newest() -> Model:
    return model_of(version("acryl-datahub"))


@pytest.fixture(scope="session")
def paths(newest: Model) -> set[tuple[str, str]]:
    return set(golden_paths(newest))


def test_the_measure_is_the_sdk_of_this_environment(newest: Model) -> None:
    assert newest.sdk == NEWEST[-1], f"add it to NEWEST, and {OLD}"
    assert RELEASES.keys() == {*SERVERS, *NEWEST}, OLD
    assert release_of(newest, newest) == RELEASES[newest.sdk], OLD


def test_the_tables_of_aspects_and_records_are_those_of_the_newest_sdk(newest: Model) -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == as_csv(newest.table), OLD
    assert RECORDS_FILE.read_text(encoding="utf-8") == as_csv(newest.records), OLD


def test_all_that_golden_proposals_hold_is_known_to_this_sdk(
    newest: Model, paths: set[tuple[str, str]]
) -> None:
    assert len(paths) > 100
    assert unknown_to(newest, paths) == set()


def test_the_page_shows_the_file_and_the_golden_proposals(newest: Model) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with(tables(releases(), newest), page) == page, OLD


@pytest.mark.parametrize("sdk", OTHERS)
def test_a_release_lacks_what_its_sdk_lacks(
    sdk: str, newest: Model, paths: set[tuple[str, str]]
) -> None:
    model = model_of(sdk)
    assert model.sdk == sdk
    assert release_of(model, newest) == RELEASES[sdk], OLD
    unknown = unknown_to(model, paths)
    dropped = {row_name(*one) for one in unknown if "=" not in one[1]}
    rows = {row_name(*one) for one in paths if "=" not in one[1]}
    ahead = {
        f"{entity_type}: {aspect}"
        for aspect, entity_types in AHEAD.get(sdk, {}).items()
        for entity_type in entity_types
    }
    shown = {row for row in rows if row_is_dropped(RELEASES[sdk], row)}
    assert shown == dropped | (rows & ahead)
    # A value that a server does not know is refused, not dropped.
    assert {path for _, path in unknown if path.partition("=")[0] in model.fields} == set()


@pytest.mark.parametrize("release", [one for one in releases() if one.server], ids=lambda r: r.sdk)
def test_the_client_knows_the_environments_of_each_release(release: Release) -> None:
    assert Capabilities(datahub=True, datahub_version=release.server).environments == (
        release.environments
    )


@pytest.mark.parametrize("release", [one for one in releases() if one.server], ids=lambda r: r.sdk)
def test_the_client_knows_what_each_supported_release_drops(
    release: Release, paths: set[tuple[str, str]]
) -> None:
    reported = Capabilities(datahub=True, datahub_version=release.server)
    expected = {
        f"{entity_type}: {path}"
        for entity_type, path in paths
        # A release that lacks a type of these gets none of them.
        if entity_type not in NEW_TYPES
        if "=" not in path and row_is_dropped(release, row_name(entity_type, path))
    }
    if reported.is_supported:
        assert set(reported.dropped) == expected
        # Without custom properties an entity has neither source nor base.
        lacking = {one for one in NEW_TYPES if f"{one}.{PROPERTIES[one]}" in release.aspects} | {
            entity_type
            for entity_type, path in paths
            if entity_type in NEW_TYPES and path.endswith(".customProperties")
            if row_is_dropped(release, row_name(entity_type, path))
        }
        assert reported.lacking_types == lacking


def test_a_server_trims_unknown_fields_at_every_depth() -> None:
    value = {"owners": [{"owner": "a", "attribution": {"time": 1}}, {"owner": "b"}], "x": 1}
    lacks = frozenset({"mlModel.ownership.owners.attribution", "mlModel.ownership.x"})
    known = {"owners": [{"owner": "a"}, {"owner": "b"}]}
    assert known_part(value, "mlModel.ownership", lacks) == known
    assert known_part(value, "mlFeature.ownership", lacks) == value
