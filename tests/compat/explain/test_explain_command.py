"""`explain` and `retract --recipe-name` of an entity of two recipes that DataHub's SDK edited."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support import small_store
from support.catalog_server import running_catalog
from support.fakes import model_urn
from support.gms import V1_7, running_gms
from support.mlflow_tables import insert
from support.small_store import GROUP, A, B, SmallStore

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]

emitter = pytest.importorskip("datahub.emitter.rest_emitter")
mcp = pytest.importorskip("datahub.emitter.mcp")
sdk = pytest.importorskip("datahub.ingestion.graph.client")
schema = pytest.importorskip("datahub.metadata.schema_classes")

JANE = "urn:li:corpuser:jane"
EDITED_MS = 1_770_000_000_000


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    with running_catalog(folder / "served.db") as catalog:
        yield catalog.url


@contextmanager
def gms(folder: Path) -> Iterator[str]:
    with running_gms(folder / "gms.db", V1_7) as running:
        yield running.url


CATALOGS: dict[str, Callable[[Path], Any]] = {
    "embedded": embedded,
    "gms": gms,
}


@pytest.fixture(params=CATALOGS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallStore]:
    with CATALOGS[request.param](tmp_path) as url:
        yield small_store.make(tmp_path, url)


def tagged(store: SmallStore, name: str, tag: str | None) -> str:
    rule = "" if tag is None else f"enrich: [{{match: {{entity: mlModel}}, add_tags: [{tag}]}}]\n"
    return store.recipe(name, f"{rule}report_to_catalog: false\n")


def write_and_edit(store: SmallStore) -> str:
    """Let `prod` and `old` write the models, and somebody edit the first; return `prod`."""
    prod = tagged(store, "prod", "ours")
    assert call([prod, "-q"]) == 0
    assert call([tagged(store, "old", "theirs"), "-q"]) == 0
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=store.server))
    tags = graph.get_aspect(A, schema.GlobalTagsClass)
    by_jane = schema.MetadataAttributionClass(time=EDITED_MS, actor=JANE)
    for tag, attribution in (("reviewed", None), ("approved", by_jane)):
        association = schema.TagAssociationClass(f"urn:li:tag:{tag}", attribution=attribution)
        tags.tags.append(association)
    graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=A, aspect=tags))
    properties = graph.get_aspect(A, schema.MLModelPropertiesClass)
    properties.name = "the one that ships"
    properties.customProperties["team"] = "risk"
    next(one for one in properties.hyperParams if one.name == "lr").value = "0.9"
    by_notebook = schema.SystemMetadataClass(runId="notebook")
    graph.emit(
        mcp.MetadataChangeProposalWrapper(
            entityUrn=A, aspect=properties, systemMetadata=by_notebook
        )
    )
    return prod


def explain(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert call(["explain", *words, "--json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def entries(explained: dict[str, Any], aspect: str, field: str) -> dict[str, Any]:
    found = explained["aspects"][aspect]["fields"][field]["entries"]
    return {one["entry"]: one for one in found}


def writers(of: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    return {
        name: (one["written_by"]["kind"], one["written_by"]["recipes"]) for name, one in of.items()
    }


def effects(of: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("urn:li:tag:"): one["next_run"] for name, one in of.items()}


KEEP = {"action": "keep"}


def test_each_entry_has_its_author(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    write_and_edit(store)
    explained = explain(capfd, A, "--server", str(store.server))
    assert explained["urn"] == A
    assert explained["sources"][0].startswith("mlflow:")
    assert set(explained["recipes"]) == {"prod", "old"}
    assert explained["next_run"] is None
    tags = entries(explained, "globalTags", "tags")
    assert {name.removeprefix("urn:li:tag:"): one for name, one in writers(tags).items()} == {
        "ours": ("recipe", ["prod"]),
        "theirs": ("recipe", ["old"]),
        "reviewed": ("person or tool", []),
        "approved": ("person or tool", []),
    }
    written = {name.removeprefix("urn:li:tag:"): one["written_by"] for name, one in tags.items()}
    assert written["ours"]["at_ms"] < written["theirs"]["at_ms"] < written["reviewed"]["at_ms"]
    assert written["ours"]["client"] is None
    assert written["reviewed"]["client"].startswith("acryl-datahub")
    assert (written["approved"]["actor"], written["approved"]["at_ms"]) == (JANE, EDITED_MS)
    assert not any(one["or_earlier"] for one in written.values())
    both = ("recipe", ["prod", "old"])
    custom = entries(explained, "mlModelProperties", "customProperties")
    assert writers(custom)["team"] == ("person or tool", [])
    assert custom["team"]["written_by"]["run_id"] == "notebook"
    assert not any(name.startswith("mlcat.") for name in custom)
    params = entries(explained, "mlModelProperties", "hyperParams")
    assert writers(params) == {"lr": both, "depth": both}
    assert params["lr"]["written_by"]["run_id"] == "notebook"
    assert params["depth"]["written_by"]["run_id"].startswith("prod-")
    name = explained["aspects"]["mlModelProperties"]["fields"]["name"]
    assert name["written_by"]["kind"] == "person or tool"
    assert name["written_by"]["changed_since"] == ["prod", "old"]


def test_the_next_run_does_what_was_shown(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    write_and_edit(store)
    prod = tagged(store, "prod", None)
    store.change("UPDATE params SET value = '0.5' WHERE run_uuid = 'a' AND key = 'lr'")
    store.change("DELETE FROM params WHERE run_uuid = 'a' AND key = 'depth'")
    insert(store.mlflow, "params", [{"run_uuid": "a", "key": "seed", "value": "7"}])
    explained = explain(capfd, A, "--recipe", prod, "--full")
    assert explained["next_run"]["recipe"] == "prod"
    assert explained["next_run"]["action"] == "update"
    assert "everything" in explained["next_run"]["reads"][0]
    tags = effects(entries(explained, "globalTags", "tags"))
    assert tags == {
        "ours": {"action": "remove"},
        "theirs": KEEP,
        "reviewed": KEEP,
        "approved": KEEP,
    }
    params = effects(entries(explained, "mlModelProperties", "hyperParams"))
    assert (params["lr"]["action"], params["lr"]["value"]["value"]) == ("change", "0.5")
    assert params["depth"] == KEEP  # the other recipe claims it
    assert params["seed"]["action"] == "add"
    name = explained["aspects"]["mlModelProperties"]["fields"]["name"]["next_run"]
    assert name == {"action": "change", "value": "run a"}
    team = entries(explained, "mlModelProperties", "customProperties")["team"]
    assert team["next_run"] == KEEP

    assert call([prod, "--full", "-q"]) == 0
    stored = store.stored(A)[A]
    kept = {one["tag"].removeprefix("urn:li:tag:") for one in stored["globalTags"]["tags"]}
    assert kept == {tag for tag, effect in tags.items() if effect == KEEP}
    now = {one["name"]: one["value"] for one in stored["mlModelProperties"]["hyperParams"]}
    assert now == {"lr": "0.5", "depth": "3", "seed": "7"}
    assert stored["mlModelProperties"]["name"] == "run a"
    assert stored["mlModelProperties"]["customProperties"]["team"] == "risk"


def test_an_entity_that_goes_with_the_next_run(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    prod = tagged(store, "prod", None)
    assert call([prod, "-q"]) == 0
    store.change("UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = 'b'")
    assert explain(capfd, B, "--recipe", prod, "--full")["next_run"]["action"] == "remove"
    assert explain(capfd, A, "--recipe", prod, "--full")["next_run"]["action"] == "keep"
    assert call([prod, "--full", "-q"]) == 0
    assert explain(capfd, B, "--server", str(store.server))["removed"] is True


def test_an_entry_that_somebody_took_away_comes_back(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    prod = tagged(store, "prod", "ours")
    assert call([prod, "-q"]) == 0
    store.put(A, globalTags={"tags": []})
    explained = explain(capfd, A, "--recipe", prod, "--full")
    tags = explained["aspects"]["globalTags"]["fields"]["tags"]
    assert tags["missing"] == {"prod": 1}
    assert [(one["entry"], one["next_run"]["action"]) for one in tags["entries"]] == [
        ("urn:li:tag:ours", "add")
    ]
    assert call(["explain", A, "--recipe", prod, "--full", "-q"]) == 0
    assert "removed: 1 entry of recipe prod" in capfd.readouterr().out


def test_the_table_for_people(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    prod = write_and_edit(store)
    capfd.readouterr()
    assert call(["explain", A, "--recipe", prod, "--full", "-q"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith(f"{A} the one that ships")
    assert any(line.startswith("  recipe       prod: ") and "this recipe" in line for line in lines)
    assert any("mlcat-ingest retract --recipe-name old" in line for line in lines)

    def row(start: str) -> str:
        return next(line for line in lines if line.strip().startswith(start))

    assert "recipe old" in row("urn:li:tag:theirs")
    assert row("urn:li:tag:ours").endswith("keep")
    assert "jane" in row("urn:li:tag:approved")
    assert "run notebook" in row("team")
    assert "after recipe prod, old" in row("name")
    assert row("name").endswith("change to run a")
    assert "recipe prod, old; value by a person or tool, run notebook" in row("lr")


def test_a_recipe_that_is_no_more_is_taken_back_by_its_name(
    store: SmallStore, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prod = write_and_edit(store)
    (store.folder / "old.yml").unlink()
    before = store.stored(A, B, GROUP)
    by_name = ("retract", "--recipe-name", "old", "--server", str(store.server))
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert call(by_name) == 1
    shown = capfd.readouterr()
    assert "- urn:li:tag:theirs" in shown.out
    assert "urn:li:tag:ours" not in shown.out
    assert store.stored(A, B, GROUP) == before

    assert call([*by_name, "--yes", "-q"]) == 0
    after = store.stored(A, B, GROUP)
    kept = {one["tag"].removeprefix("urn:li:tag:") for one in after[A]["globalTags"]["tags"]}
    assert kept == {"ours", "reviewed", "approved"}
    properties = after[A]["mlModelProperties"]
    assert properties["name"] == "the one that ships"
    assert properties["customProperties"]["team"] == "risk"
    assert "mlcat.applied.prod" in properties["customProperties"]
    assert "mlcat.applied.old" not in properties["customProperties"]
    lost = {
        key
        for key in before[A]["mlModelProperties"]["customProperties"]
        if key not in properties["customProperties"]
    }
    assert lost == {"mlcat.applied.old"}
    assert (
        after[A]["mlModelProperties"]["hyperParams"]
        == (before[A]["mlModelProperties"]["hyperParams"])
    )
    assert set(explain(capfd, A, "--recipe", prod)["recipes"]) == {"prod"}
    capfd.readouterr()
    assert call([*by_name, "--yes"]) == 0
    assert "contains nothing of 'old'" in capfd.readouterr().err


def test_what_a_recipe_alone_wrote_is_removed_by_its_name(store: SmallStore) -> None:
    assert call([tagged(store, "old", "theirs"), "-q"]) == 0
    prod = tagged(store, "prod", "ours")
    # The recipe is read for its catalog and its state alone; it never ran.
    assert call(["retract", prod, "--recipe-name", "old", "--yes", "-q"]) == 0
    assert {one["status"]["removed"] for one in store.stored(A, B, GROUP).values()} == {True}


def test_what_cannot_be_explained(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    server = ("--server", str(store.server))
    nobody = model_urn("nobody")
    assert call(["explain", nobody, *server]) == 1
    assert f"the catalog has no {nobody}" in capfd.readouterr().err
    assert call(["explain", "nonsense", *server]) == 2
    assert call(["explain", A, "--server", "nowhere"]) == 2
    assert call(["explain", "urn:li:nothing:a", *server]) == 2
    assert "unknown entity type nothing" in capfd.readouterr().err
    assert call(["explain", A.replace("mlModel", "mlmodel"), *server]) == 2
    assert "mlModel?" in capfd.readouterr().err
    assert call(["explain", A, "--full", *server]) == 2
    assert call(["retract", "--recipe-name", "old", "--server", "nowhere"]) == 2
    assert call(["retract", "--recipe-name", "", *server]) == 2
    recipe = tagged(store, "prod", None)
    assert call(["explain", A, "--recipe", recipe, *server]) == 2
    assert call([recipe, "-q"]) == 0
    store.mlflow.unlink()
    capfd.readouterr()
    assert call(["explain", A, "--recipe", recipe, "-q"]) == 2
    shown = capfd.readouterr()
    assert "recipe prod" in shown.out
    assert "effect of the next run is unknown" in shown.err
