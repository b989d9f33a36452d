"""Definitions files through the command line into a catalog, and again after each change."""

import json

import pytest

from mlcat_ingest.cli.main import call
from support.definitions import AGE, DRIVER, DRIVERS, RATE, RIDERS, TRIPS, FeatureWorld, definitions

THEIRS = "urn:li:mlFeature:(theirs.table,score)"


def test_the_catalog_follows_the_file(features: FeatureWorld) -> None:
    content = definitions()
    features.write(content)
    recipe = features.recipe(features.source())
    assert features.run(recipe) == 0
    assert features.features_of(DRIVERS) == [RATE, TRIPS]
    assert features.properties(DRIVERS)["mlPrimaryKeys"] == [DRIVER]
    assert features.properties(RATE)["sources"] == [
        "urn:li:dataset:(urn:li:dataPlatform:snowflake,db.s.drivers,PROD)"
    ]
    assert features.stored(DRIVERS)["globalTags"] == {"tags": [{"tag": "urn:li:tag:team:drivers"}]}
    custom = features.properties(DRIVERS)["customProperties"]
    assert custom["mlcat.source"] == "definitions:features.yml:default"

    for how in ((), ("--full",)):
        assert features.run(recipe, *how) == 0
        reported = json.loads((features.folder / "report.json").read_text())
        assert reported["proposals_sent"] == 0

    table = features.properties(DRIVERS)
    features.emit(DRIVERS, {**table, "mlFeatures": [RATE, TRIPS, THEIRS]})
    content["tables"][0]["features"].pop()
    features.write(content)
    assert features.run(recipe) == 0
    assert features.features_of(DRIVERS) == [RATE, THEIRS]
    assert not features.is_removed(TRIPS), "one pass is no proof"
    assert features.run(recipe) == 0
    assert features.is_removed(TRIPS)

    content["tables"].pop()
    features.write(content)
    assert features.run(recipe) == 0
    assert not features.is_removed(RIDERS), "one pass is no proof"
    assert features.run(recipe) == 0
    assert features.is_removed(RIDERS)
    assert features.is_removed(AGE)
    assert not features.is_removed(DRIVERS)


def test_two_stores_with_one_namespace_are_refused_before_anything_is_written(
    features: FeatureWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    features.write(definitions())
    features.write(definitions(platform="other"), "copy.yml")
    copy = features.source("copy.yml")
    assert features.run(features.recipe(features.source(), copy)) == 2
    reported = capsys.readouterr().err
    assert "definitions:features.yml:default and definitions:copy.yml:default" in reported
    assert "namespace_prefix" in reported
    assert features.stored(DRIVERS) == {}

    assert features.run(features.recipe(features.source())) == 0
    assert features.run(features.recipe(copy, name="copy")) == 2
    assert "namespace_prefix" in capsys.readouterr().err
    other = "urn:li:mlFeatureTable:(urn:li:dataPlatform:other,{}rides.drivers)"
    assert features.stored(other.format("")) == {}

    prefixed = features.source("copy.yml", namespace_prefix="copy")
    assert features.run(features.recipe(prefixed, name="copy")) == 0
    assert features.features_of(other.format("copy.")) == [
        "urn:li:mlFeature:(copy.rides.drivers,rate)",
        "urn:li:mlFeature:(copy.rides.drivers,trips)",
    ]


def test_what_a_recipe_wrote_can_be_taken_back(features: FeatureWorld) -> None:
    features.write(definitions())
    recipe = features.recipe(features.source())
    assert features.run(recipe) == 0
    table = features.properties(DRIVERS)
    features.emit(DRIVERS, {**table, "mlFeatures": [*table["mlFeatures"], THEIRS]})
    assert call(["retract", recipe, "--yes", "-q"]) == 0
    assert all(map(features.is_removed, (RATE, TRIPS, DRIVER, RIDERS, AGE)))
    assert not features.is_removed(DRIVERS)
    assert features.features_of(DRIVERS) == [THEIRS]
    assert features.run(recipe) == 0
    assert not features.is_removed(RATE)
    assert set(features.features_of(DRIVERS)) == {RATE, TRIPS, THEIRS}


def test_a_table_that_one_store_gave_up_is_free_for_another(features: FeatureWorld) -> None:
    content = definitions()
    features.write(content)
    recipe = features.recipe(features.source())
    assert features.run(recipe) == 0
    features.write(definitions(tables=content["tables"][1:]))
    features.write(definitions(tables=content["tables"][:1]), "new.yml")
    moved = features.recipe(features.source("new.yml"), name="moved")
    assert features.run(moved) == 2
    assert features.run(recipe) == 0
    assert not features.is_removed(DRIVERS), "one pass is no proof"
    assert features.run(recipe) == 0
    assert features.is_removed(DRIVERS)
    assert features.run(moved) == 0
    assert not features.is_removed(DRIVERS)
    custom = features.properties(DRIVERS)["customProperties"]
    assert custom["mlcat.source"] == "definitions:new.yml:default"
    assert features.run(recipe, "--full") == 0
    assert not features.is_removed(DRIVERS)
