"""The client against the embedded catalog over a socket: what is written can be read back."""

from pathlib import Path

import pytest

from mlcat_ingest.client.base import TestOutcome
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import AspectRejectedError, AuthenticationError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.net.session import HttpOptions
from support.catalog_server import RunningCatalog, running_catalog
from support.fakes import group_urn, model_urn

pytestmark = pytest.mark.smoke

HOSTILE = [
    "a/b",
    "50%2C off",
    "größe 漢字 🎉",
    "\u202eright-to-left",
    "<b>&amp;</b>",
    'it\'s "quoted"',
    "a+b c?d#e",
    "x" * 300,
]


def connected(url: str, token: str = "") -> CatalogClient:
    return CatalogClient(url, token, options=HttpOptions(retries=0))


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
def test_what_is_emitted_is_read_back(catalog: RunningCatalog, prefix: str) -> None:
    urn = model_urn("m")
    value = {"description": "ü", "customProperties": {"k": "v"}, "groups": [group_urn("g")]}
    with connected(catalog.url + prefix) as client:
        assert not client.connect().datahub
        client.emit(Proposal(urn, "mlModelProperties", value))
        assert client.write([Proposal(group_urn("g"), "mlModelGroupProperties", {})]) == []
        assert client.get_aspect(urn, "mlModelProperties") == value
        assert client.get_aspect(urn, "ownership") is None
        assert client.get_aspect(model_urn("absent"), "mlModelProperties") is None
        found = client.read_many(
            [urn, model_urn("absent"), group_urn("g")], ["mlModelProperties", "mlModelGroupKey"]
        )
        assert client.reads_in_batches
        assert found.keys() == {urn, group_urn("g")}
        stored = found[urn]["mlModelProperties"]
        assert (stored.value, stored.version) == (value, "1")
        data = client.graphql(
            "query($urn: String!) { mlModel(urn: $urn) { name properties { groups { urn } } } }",
            {"urn": urn},
        )
    assert data == {"mlModel": {"name": "m", "properties": {"groups": [{"urn": group_urn("g")}]}}}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_come_back(catalog: RunningCatalog, name: str) -> None:
    urn = model_urn(name)
    one, many = {"description": f"one {name}"}, {"description": f"many {name}"}
    with connected(catalog.url) as client:
        client.emit(Proposal(urn, "mlModelProperties", one))
        assert client.get_aspect(urn, "mlModelProperties") == one
        assert client.write([Proposal(urn, "mlModelProperties", many)]) == []
        stored = client.read_many([urn], ["mlModelProperties"])[urn]["mlModelProperties"]
    assert (stored.value, stored.version) == (many, "2")


def test_bad_proposals_stand_alone_and_the_rest_is_stored(catalog: RunningCatalog) -> None:
    urns = [model_urn(str(n)) for n in range(60)]
    proposals = [
        Proposal(urn, "noSuchAspect" if n in {7, 44} else "status", {"removed": False})
        for n, urn in enumerate(urns)
    ]
    with connected(catalog.url) as client:
        rejected = client.write(proposals)
        assert {one.urn for one in rejected} == {urns[7], urns[44]}
        assert all(one.status == 422 and "noSuchAspect" in one.reason for one in rejected)
        assert len(client.read_many(urns, ["status"])) == 58
        with pytest.raises(AspectRejectedError, match="noSuchAspect"):
            client.emit(proposals[7])


def test_tests_are_evaluated_and_pushed(
    catalog: RunningCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    definition = (
        '{"on":{"types":["mlModel"]},'
        '"rules":{"property":"mlModelProperties.description","operator":"exists"}}'
    )
    info = {
        "name": "described",
        "category": "c",
        "definition": {"type": "JSON", "json": definition},
    }
    good, bad = model_urn("good"), model_urn("bad")
    with connected(catalog.url) as client:
        rejected = client.write(
            [
                Proposal("urn:li:test:described", "testInfo", info),
                Proposal(good, "mlModelProperties", {"description": "x"}),
                Proposal(bad, "mlModelProperties", {}),
            ]
        )
        assert rejected == []
        reported = client.evaluator.evaluate_batch([good, bad], should_push=True)
        assert reported.outcomes == {
            good: TestOutcome(passing=("urn:li:test:described",)),
            bad: TestOutcome(failing=("urn:li:test:described",)),
        }
        assert client.evaluator.evaluate(good).outcomes[good] == reported.outcomes[good]
        pushed = client.get_aspect(bad, "testResults")
    assert pushed is not None
    assert [one["test"] for one in pushed["failing"]] == ["urn:li:test:described"]
    assert caplog.text == ""


def test_tokens_are_needed_where_they_are_switched_on(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog.db", token="right") as catalog:
        with connected(catalog.url, "wrong") as client:
            client.connect()
            with pytest.raises(AuthenticationError, match="token came from the configuration"):
                client.get_aspect(model_urn("m"), "status")
        with (
            connected(catalog.url) as client,
            pytest.raises(AuthenticationError, match="no token was given"),
        ):
            client.emit(Proposal(model_urn("m"), "status", {}))
        with connected(catalog.url, "right") as client:
            client.emit(Proposal(model_urn("m"), "status", {"removed": False}))
