"""The table of the behaviours of DataHub's releases."""

import pytest

from mlcat_ingest.client.rest import capabilities
from mlcat_ingest.client.rest.capabilities import Capabilities
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.urn import FABRICS


def test_the_table_of_releases_names_environments_and_declared_aspects() -> None:
    assert capabilities._ENVIRONMENTS_SINCE.keys() < FABRICS
    for part in capabilities._STORED_SINCE:
        entity_type, _, path = part.partition(": ")
        assert entity_type in ASPECTS[path.partition(".")[0]].entity_types


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("v0.15.0.1", False),
        ("0.14.1", False),
        ("v1.0.0rc2", True),
        ("v1.0.0", True),
        ("v1.10.0", True),
        ("a4f6b1c", True),
        (None, True),
    ],
)
def test_releases_below_the_smallest_are_not_supported(
    version: str | None, *, supported: bool
) -> None:
    reported = Capabilities(datahub=True, datahub_version=version)
    assert reported.is_supported == supported


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("v0.14.1", {"SANDBOX", "PRD", "TST", "SIT", "SBX", "CERT"}),
        ("v1.0.0", {"PRD", "TST", "SIT", "SBX", "CERT"}),
        ("1.1.0.3rc2", {"PRD", "TST", "SIT", "SBX", "CERT"}),
        ("v1.2.0", {"CERT"}),
        ("v1.6.0", {"CERT"}),
        ("v1.10.0", set()),
        ("a4f6b1c", set()),
        (None, set()),
    ],
)
def test_environments_by_release(version: str | None, lacks: set[str]) -> None:
    assert FABRICS - Capabilities(datahub=True, datahub_version=version).environments == lacks


@pytest.mark.parametrize(
    ("version", "enforces"),
    [("v0.13.3", False), ("v0.14.0", True), ("v1.7.0rc0", True), ("a4f6b1c", None), (None, None)],
)
def test_conditions_by_release(version: str | None, *, enforces: bool | None) -> None:
    reported = Capabilities(datahub=True, datahub_version=version)
    assert reported.enforces_conditions is enforces


@pytest.mark.parametrize(
    ("version", "behaviour"),
    [
        (
            "v0.13.3",
            (
                "DataHub v0.13.3 ignores If-Version-Match; "
                "has no environment CERT, PRD, SANDBOX, SBX, SIT, TST; "
                "acknowledges and drops mlModelGroup: mlModelGroupProperties.externalUrl and "
                "mlModel: subTypes and mlModelGroup: subTypes and mlFeatureTable: subTypes"
            ),
        ),
        (
            "v1.6.0",
            (
                "DataHub v1.6.0 enforces If-Version-Match; has no environment CERT; "
                "stores all aspects that runs write"
            ),
        ),
        (
            "v1.7.0",
            (
                "DataHub v1.7.0 enforces If-Version-Match; has all environments; "
                "stores all aspects that runs write"
            ),
        ),
    ],
)
def test_words_about_a_release(version: str, behaviour: str) -> None:
    assert Capabilities(datahub=True, datahub_version=version).behaviour == behaviour


@pytest.mark.parametrize(
    ("service", "may_drop"),
    [
        (Capabilities(datahub=True, datahub_version="v1.0.0"), True),
        (Capabilities(datahub=True, datahub_version="v1.7.0"), False),
        (Capabilities(datahub=True, datahub_version=None), True),
        (Capabilities(datahub=False, datahub_version=None), True),
        (Capabilities(datahub=False, datahub_version=None, same_version=True), False),
    ],
)
def test_a_service_that_may_drop_what_it_acknowledges(
    service: Capabilities,
    may_drop: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert service.may_drop is may_drop
