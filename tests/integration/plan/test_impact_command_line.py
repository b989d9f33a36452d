"""`plan --impact`: the models that use the features which a run would remove."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from support.catalog_server import running_catalog
from support.definitions import AGE, RATE, RIDERS, TRIPS, FeatureWorld, definitions
from support.fakes import model_urn
from support.gms import running_gms


class World(FeatureWorld):
    """A catalog with a feature store, and models that use its features."""

    def model(self, name: str, *features: str, **aspects: Any) -> None:
        urn = model_urn(name)
        properties = {"name": name, "mlFeatures": list(features)}
        custom = aspects.pop("custom", None)
        if custom is not None:
            properties["customProperties"] = custom
        written = {"mlModelProperties": properties, **aspects}
        with CatalogClient(self.catalog, "") as client:
            proposals = [Proposal(urn, each, value) for each, value in written.items()]
            assert client.write(proposals) == []


@pytest.fixture(params=["embedded", "gms"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    running: Any = running_catalog if request.param == "embedded" else running_gms
    with running(tmp_path / "catalog.db") as catalog:
        yield World(tmp_path, catalog.url)


def impact_of(
    capfd: pytest.CaptureFixture[str], recipe: str, *words: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    capfd.readouterr()
    code = call(["plan", recipe, "--impact", "--json", *words])
    lines = list(map(json.loads, capfd.readouterr().out.splitlines()))
    assert lines[-1]["kind"] == "summary"
    return code, {one.pop("urn"): one for one in lines if one.pop("kind") == "impact"}


def without(content: dict[str, Any], feature: str) -> dict[str, Any]:
    for table in content["tables"]:
        table["features"] = [one for one in table["features"] if one["name"] != feature]
    return content


def test_what_uses_a_feature_that_goes_is_counted_and_named(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world.write(definitions())
    recipe = world.recipe(world.source())
    assert world.run(recipe) == 0
    version = {"versionSet": "urn:li:versionSet:(churn,mlModel)", "sortId": "0001"}
    alias = {"version": {"versionTag": "1"}, "aliases": [{"versionTag": "Champion"}]}
    world.model("aliased", TRIPS, versionProperties={**version, **alias})
    world.model(
        "staged", TRIPS, RATE, globalTags={"tags": [{"tag": "urn:li:tag:mlflow_production"}]}
    )
    world.model("marked", TRIPS, custom={"stage": "production"})
    world.model("archived", TRIPS, globalTags={"tags": [{"tag": "urn:li:tag:mlflow_archived"}]})
    for n in range(10):
        world.model(f"m{n}", TRIPS)
    world.model("removed", TRIPS, status={"removed": True})
    world.model("other", RATE)
    assert impact_of(capfd, recipe) == (0, {})

    world.write(without(definitions(), "trips"))
    names = ["aliased", "marked", "staged", "archived", "m0"]
    counts = {"name": "trips (rides.drivers)", "models": 14, "in_production": 3}
    expected = {**counts, "model_names": names}
    assert impact_of(capfd, recipe) == (5, {TRIPS: {**expected, "removed": "with the next pass"}})
    assert call(["plan", recipe]) == 0
    assert world.run(recipe) == 0
    assert impact_of(capfd, recipe) == (5, {TRIPS: {**expected, "removed": "with the run"}})
    assert call(["plan", recipe, "--impact"]) == 5
    line = "! removing trips (rides.drivers) affects 14 models, 3 of them in Production: aliased, "
    assert line in capfd.readouterr().out
    assert world.run(recipe) == 0
    assert impact_of(capfd, recipe) == (0, {})


def test_a_table_stands_for_its_features(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    content = definitions()
    content["tables"][1]["features"].append({"name": "trips", "type": "COUNT"})
    unused = "urn:li:mlFeature:(rides.riders,trips)"
    world.write(content)
    recipe = world.recipe(world.source())
    assert world.run(recipe) == 0
    world.model("one", AGE, RATE)
    content["tables"].pop()
    world.write(content)
    code, found = impact_of(capfd, recipe)
    assert code == 5
    assert {urn: one["models"] for urn, one in found.items()} == {RIDERS: 1, AGE: 1, unused: 0}
    assert found[RIDERS]["name"] == "rides.riders"


def test_a_feature_that_many_models_use_is_counted_whole(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world.write(definitions())
    recipe = world.recipe(world.source())
    assert world.run(recipe) == 0
    value = {"mlFeatures": [TRIPS]}
    with CatalogClient(world.catalog, "") as client:
        for start in range(0, 1_200, 200):
            numbers = range(start, start + 200)
            proposals = [Proposal(model_urn(f"m{n}"), "mlModelProperties", value) for n in numbers]
            assert client.write(proposals) == []
    world.write(without(definitions(), "trips"))
    _, found = impact_of(capfd, recipe)
    assert found[TRIPS]["models"] == 1_200


def test_features_are_asked_for_in_batches(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_gms(tmp_path / "catalog.db") as gms:
        world = World(tmp_path, gms.url)
        content = definitions()
        features = [{"name": f"f{n}", "type": "COUNT"} for n in range(45)]
        content["tables"].append({"name": "wide", "features": features})
        world.write(content)
        recipe = world.recipe(world.source())
        assert world.run(recipe) == 0
        for n in range(3):
            world.model(f"m{n}", *(f"urn:li:mlFeature:(rides.wide,f{n})" for n in range(45)))
        content["tables"].pop()
        world.write(content)
        before = len(gms.calls())
        assert call(["plan", recipe, "-q"]) == 0
        planned = len(gms.calls()) - before
        code, found = impact_of(capfd, recipe)
        assert (code, len(found), {one["models"] for one in found.values()}) == (5, 46, {3})
        asked = gms.calls()[before + planned :]
        users = [one for one in asked if b"query users(" in one.body]
        assert len(users) == 3
        # To connect, and one read each of the table and of the models.
        assert len(asked) - planned - len(users) <= 4


def test_a_file_has_no_models_to_ask_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    world = FeatureWorld(tmp_path, "")
    world.write(definitions())
    recipe = tmp_path / "file.yml"
    recipe.write_text(
        "sources: [{type: definitions, config: {path: features.yml}}]\n"
        "sink: {type: file, config: {path: out.json}}\n"
    )
    assert call(["plan", str(recipe), "--impact"]) == 2
    assert "omit --impact" in capfd.readouterr().err
