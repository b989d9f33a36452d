"""`docs/explanation/identity.md`: the URNs that it promises are those that are given."""

import re
from pathlib import Path

from mlcat_ingest.metadata.naming import Naming

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "identity.md").read_text()


def promised() -> dict[str, str]:
    return dict(re.findall(r"^\| ([^|]+) \|[^|]+\| `(urn:li:[^`]+)` \|$", PAGE, re.MULTILINE))


def test_the_urns_are_those_that_are_given() -> None:
    mlflow, feast = Naming(), Naming("feast")
    table = feast.feature_table("rides", "drivers")
    assert promised() == {
        "run": mlflow.model("0a1b").urn,
        "external model of MLflow 3": mlflow.model("m-0a1b").urn,
        "experiment": mlflow.group("churn").urn,
        "registered model": mlflow.registered_group("scorer").urn,
        "version": mlflow.version("scorer", "3").urn,
        "feature table": table.urn,
        "feature": feast.feature(table, "rate").urn,
        "key of a table": feast.primary_key(table, "driver").urn,
    }


def test_the_rules_of_names_hold() -> None:
    assert "`eu.churn`, `eu.team.churn`" in PAGE
    assert Naming(instance="eu").group("churn").name == "eu.churn"
    assert Naming(instance="eu", workspace="team").group("churn").name == "eu.team.churn"
    assert "`a,b (c)` is `a%2Cb %28c%29`" in PAGE
    assert Naming().group("a,b (c)").name == "a%2Cb %28c%29"
    assert "`registered%3A` there" in PAGE
    assert Naming().group("registered:x").name == "registered%3Ax"


def test_a_long_name_is_cut_as_the_page_says() -> None:
    assert "ends in `~` and 16 hexadecimal digits" in PAGE
    first, second = (Naming().group(f"{'x' * 600}{end}") for end in "ab")
    # A release that cut names elsewhere would give this experiment another URN.
    assert re.fullmatch(r"x+~b51d069b2f09c3d3", first.name)
    assert first.name != second.name
