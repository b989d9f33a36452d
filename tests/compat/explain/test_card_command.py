"""`card` of a model that two recipes wrote and DataHub's SDK edited, on both kinds of services."""

import json
import re
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from mlcat_ingest.cli.main import call
from support import small_store
from support.catalog_server import running_catalog
from support.fakes import group_urn, model_urn
from support.sdk_warnings import SDK_WARNINGS
from support.small_store import GROUP, A, SmallStore

pytestmark = SDK_WARNINGS

mcp = pytest.importorskip("datahub.emitter.mcp")
sdk = pytest.importorskip("datahub.ingestion.graph.client")
schema = pytest.importorskip("datahub.metadata.schema_classes")

PURPOSE = "Rank leads; people decide."


def edit(store: SmallStore) -> None:
    """Let a person write the purpose, and another value of a parameter."""
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=store.server))
    use = schema.IntendedUseClass(primaryUses=[PURPOSE])
    graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=A, aspect=use))
    properties = graph.get_aspect(A, schema.MLModelPropertiesClass)
    next(one for one in properties.hyperParams if one.name == "lr").value = "0.9"
    graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=A, aspect=properties))


def card(store: SmallStore, *words: str) -> str:
    """Return the card of the first model."""
    out = store.folder / "card.out"
    assert call(["card", A, "--server", str(store.server), "--out", str(out), "-q", *words]) == 0
    return out.read_text("utf-8")


def shown(store: SmallStore, urn: str) -> Any:
    """Return the card on the page of a model."""
    request = urllib.request.Request(
        f"{store.server}/entity/{quote(urn, safe='')}?tab=card",
        headers={"Accept": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["page"]["card"]


def lines(store: SmallStore) -> dict[tuple[str, str], dict[str, Any]]:
    data = json.loads(card(store, "--format", "json"))
    return {(one["topic"], one["label"]): one for one in data["lines"]}


def test_a_text_of_a_person_is_in_the_card_and_survives_the_next_ingest(
    store: SmallStore,
) -> None:
    assert call([prod := store.recipe("prod", "report_to_catalog: false\n"), "-q"]) == 0
    before = lines(store)
    assert before["parameters", "lr"]["writer"].startswith("recipe prod, run prod-")
    assert "Missing" in (text := card(store))
    assert "intendedUse.primaryUses" in text
    edit(store)
    edited = lines(store)
    assert call([prod, "--full", "-q"]) == 0
    for found in (edited, lines(store)):
        purpose = found["purpose", "Use"]
        assert purpose["value"] == PURPOSE
        assert "recipe" not in purpose["writer"]
        assert (purpose["source"], purpose["version"]) == ("intendedUse.primaryUses", 1)
        # What nobody touched keeps its version, its writer and its time.
        assert found["parameters", "depth"] == before["parameters", "depth"]
    assert edited["parameters", "lr"]["value"] == "0.9"
    assert edited["parameters", "lr"]["version"] == 2
    assert "recipe" not in edited["parameters", "lr"]["writer"]


def test_a_text_of_the_form_is_in_the_card_and_survives_the_next_ingest(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_catalog(tmp_path / "served.db") as catalog:
        url = catalog.url
        store = small_store.make(tmp_path, url)
        assert call([prod := store.recipe("prod", "report_to_catalog: false\n"), "-q"]) == 0
        page = f"{url}/entity/{quote(A, safe='')}"
        with urllib.request.urlopen(f"{page}?edit=1") as reply:
            hidden = r'type="hidden" name="(\w+)" value="([^"]*)"'
            form = {**dict(re.findall(hidden, reply.read().decode())), "mitigations": PURPOSE}
        request = urllib.request.Request(page, urlencode(form).encode(), {"Origin": url})
        with urllib.request.urlopen(request) as reply:
            assert reply.status == 200
        for _ in range(2):
            found = lines(store)["oversight", "Mitigation"]
            assert (found["value"], found["version"]) == (PURPOSE, 1)
            assert found["source"] == "mlModelEthicalConsiderations.mitigations"
            assert call([prod, "--full", "-q"]) == 0
        capfd.readouterr()
        assert call(["explain", A, "--server", url]) == 0
        explained = capfd.readouterr().out.partition("mlModelEthicalConsiderations")[2]
        assert "a person or tool" in explained.partition("mlModelProperties")[0]


def test_the_same_versions_make_the_same_card_here_and_on_the_page(store: SmallStore) -> None:
    assert call([store.recipe("prod", "report_to_catalog: false\n"), "-q"]) == 0
    edit(store)
    for form in ("md", "hf", "cyclonedx", "annex-iv", "json"):
        assert card(store, "--format", form) == card(store, "--format", form) != ""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    dated = card(store, "--on", today).split("\n")
    assert "as of" in dated[2]
    assert dated[4] == "- Not known: aspects that were deleted since"
    assert dated[5:] == card(store).split("\n")[3:]
    page, printed = shown(store, A), json.loads(card(store, "--format", "json"))
    assert page["lines"] == printed["lines"]
    assert page["missing"] == printed["missing"]


def test_a_version_lists_the_others_of_its_model(store: SmallStore) -> None:
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=store.server))
    group = group_urn("registered:churn")
    # People can have put the version of another model into the group, such as number 7.
    for number, model in ((1, "churn"), (10, "churn"), (7, "fraud"), (2, "churn")):
        tag = schema.VersionTagClass(versionTag=str(number))
        of_group = schema.MLModelPropertiesClass(name=f"churn_{number}", groups=[group])
        of_set = schema.VersionPropertiesClass(
            versionSet=f"urn:li:versionSet:({model},mlModel)",
            version=tag,
            sortId=f"{number:08}",
            aliases=[schema.VersionTagClass(versionTag="next")] if number == 10 else [],
        )
        for aspect in (of_group, of_set):
            urn = model_urn(f"churn_{number}")
            graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=urn, aspect=aspect))
    out = store.folder / "out.json"
    words = ["card", model_urn("churn_2"), "--server", str(store.server), "--format", "json"]
    assert call([*words, "--out", str(out), "-q"]) == 0
    found = json.loads(out.read_text())["lines"]
    others = [one for one in found if one["entity"] != model_urn("churn_2")]
    assert [(one["label"], one["value"]) for one in others] == [
        ("Other version", "10"),
        ("Alias of version 10", "next"),
        ("Other version", "1"),
    ]
    assert shown(store, model_urn("churn_2"))["lines"] == found


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([A, "--on", "2001-01-31"], 1, "at 2001-01-31 23:59:59 UTC: its first version is younger"),
        ([A, "--on", "2999-01-31"], 2, "2999-01-31 is in the future"),
        ([A, "--on", "2001-01-31T12:00+01:00"], 1, "at 2001-01-31 11:00:00 UTC: its first"),
        ([A, "--on", "yesterday"], 2, "'yesterday' is no day and no time of ISO 8601, such as"),
        ([model_urn("nobody")], 1, "the catalog has no"),
        ([GROUP], 2, "is no model (a card is of a run"),
        (["churn"], 1, "(it is the name of a group, of kind experiment; name a run of it)"),
        ([A, "--out", "/nowhere/card.md"], 2, "name a file in a folder that is there"),
    ],
)
def test_what_no_card_can_be_made_of(
    store: SmallStore,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    message: str,
) -> None:
    assert call([store.recipe("prod", "report_to_catalog: false\n"), "-q"]) == 0
    assert call(["card", *words, "--server", str(store.server)]) == status
    assert message in capfd.readouterr().err
