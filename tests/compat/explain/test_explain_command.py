"""`explain` and `retract --recipe-name` of an entity of two recipes that DataHub's SDK edited."""

import io
import json
import sys
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support.fakes import model_urn
from support.sdk_warnings import SDK_WARNINGS
from support.small_store import GROUP, A, B, SmallStore

pytestmark = SDK_WARNINGS

mcp = pytest.importorskip("datahub.emitter.mcp")
sdk = pytest.importorskip("datahub.ingestion.graph.client")
schema = pytest.importorskip("datahub.metadata.schema_classes")


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
    tags.tags.append(schema.TagAssociationClass("urn:li:tag:reviewed"))
    graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=A, aspect=tags))
    properties = graph.get_aspect(A, schema.MLModelPropertiesClass)
    properties.name = "the one that ships"
    properties.customProperties["team"] = "risk"
    next(one for one in properties.hyperParams if one.name == "lr").value = "0.9"
    graph.emit(mcp.MetadataChangeProposalWrapper(entityUrn=A, aspect=properties))
    return prod


def explain(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert call(["explain", *words, "--json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def writers(explained: dict[str, Any], place: str) -> dict[str | None, tuple[str, list[str]]]:
    """Return the kind of writer of each entry of a field of an aspect, and the recipes."""
    return {
        one["entry"] and one["entry"].removeprefix("urn:li:tag:"): (
            one["written_by"],
            one["recipes"] or one["changed_since"],
        )
        for one in explained["entries"]
        if f"{one['aspect']}.{one['field']}" == place
    }


def test_each_entry_has_its_author(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    write_and_edit(store)
    explained = explain(capfd, A, "--server", str(store.server))
    assert explained["urn"] == A
    assert explained["sources"][0].startswith("mlflow:")
    assert set(explained["recipes"]) == {"prod", "old"}
    assert writers(explained, "globalTags.tags") == {
        "ours": ("recipe", ["prod"]),
        "theirs": ("recipe", ["old"]),
        "reviewed": ("person or tool", []),
    }
    both = ("recipe", ["prod", "old"])
    custom = writers(explained, "mlModelProperties.customProperties")
    assert custom["team"] == ("person or tool", [])
    assert not any(str(name).startswith("mlcat.") for name in custom)
    assert writers(explained, "mlModelProperties.hyperParams") == {"lr": both, "depth": both}
    assert writers(explained, "mlModelProperties.name") == {
        None: ("person or tool", ["prod", "old"])
    }


def test_the_table_for_people(store: SmallStore, capfd: pytest.CaptureFixture[str]) -> None:
    prod = write_and_edit(store)
    store.mlflow.unlink()  # only the catalog of the recipe is read
    capfd.readouterr()
    assert call(["explain", A, "--recipe", prod, "-q"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith(f"{A} the one that ships")
    assert any(line.startswith("  recipe       prod: ") and "this recipe" in line for line in lines)
    assert any("mlcat-ingest retract --recipe-name old" in line for line in lines)

    def row(start: str) -> str:
        return next(line for line in lines if line.strip().startswith(start))

    assert row("urn:li:tag:theirs").endswith("recipe old")
    assert row("team").endswith("a person or tool")
    assert row("name").endswith("a person or tool, after recipe prod, old")
    assert row("lr").endswith("recipe prod, old")


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
    assert kept == {"ours", "reviewed"}
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
    assert call(["explain", "nonsense", *server]) == 1
    assert call(["explain", A, "--server", "nowhere"]) == 2
    assert call(["explain", "urn:li:nothing:a", *server]) == 2
    assert "unknown entity type nothing" in capfd.readouterr().err
    assert call(["explain", A.replace("mlModel", "mlmodel"), *server]) == 2
    assert "mlModel?" in capfd.readouterr().err
    assert call(["retract", "--recipe-name", "old", "--server", "nowhere"]) == 2
    assert call(["retract", "--recipe-name", "", *server]) == 2
    recipe = tagged(store, "prod", None)
    assert call(["explain", A, "--recipe", recipe, *server]) == 2
