"""The passport: what was there at a time, who wrote it, and what comes from the run."""

import json
from typing import Any

import pytest
from markdown_it import MarkdownIt

from mlcat_ingest.metadata.card_formats import FORMS
from mlcat_ingest.metadata.passport import KeptVersion, Passport, date_of, passport, writer_text
from support.fakes import kept_in, model_urn

URN, RUN = model_urn("m"), model_urn("r")
DAY = 86_400_000
START = 1_767_225_600_000
"""2026-01-01."""
PROPERTIES = "mlModelProperties"
TEST = "urn:li:test:owner"


def version(number: int, day: int | None, **value: Any) -> KeptVersion:
    written_ms = None if day is None else START + day * DAY
    return KeptVersion(number, value, written_ms, f"recipe prod, run {number}")


def params(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def shown(made: Passport, *topics: str) -> list[tuple[str, str, int, str]]:
    return [(line.label, line.value, line.version, line.writer) for line in made.of(*topics)]


HISTORY = {
    PROPERTIES: [
        version(4, 30, hyperParams=params(lr="0.3", depth="2")),
        version(3, 20, hyperParams=params(lr="0.2", depth="2")),
    ],
    "ownership": [version(1, 25, owners=[{"owner": "urn:li:corpuser:ada", "type": "NONE"}])],
}


def test_a_line_has_the_version_in_which_its_value_came() -> None:
    made = passport(
        URN, kept_in({URN: HISTORY}), claims={(PROPERTIES, "hyperParams", "depth"): "old, prod"}
    )
    assert shown(made, "parameters") == [
        # The version in which it came is not kept: only the base says whose it is.
        ("depth", "2", 3, "recipe old, prod"),
        ("lr", "0.3", 4, "recipe prod, run 4"),
    ]
    (depth, *_) = shown(passport(URN, kept_in({URN: HISTORY})), "parameters")
    assert depth[3] == "not known: before the oldest version that is kept or read"
    assert made.made_from == ((URN, PROPERTIES, 4), (URN, "ownership", 1))


def test_on_a_day_there_is_what_was_written_until_then() -> None:
    made = passport(URN, kept_in({URN: HISTORY}), on_ms=START + 22 * DAY)
    assert [line.value for line in made.of("parameters")] == ["2", "0.2"]
    assert made.made_from == ((URN, PROPERTIES, 3),)
    assert made.unknown == ("aspects that were deleted since",)
    assert "owners" in {part.topic for part in made.missing}
    assert len(made.of("changes")) == 1


def test_a_passport_names_what_the_catalog_cannot_know() -> None:
    undated = {"globalTags": [version(1, None, tags=[{"tag": "urn:li:tag:x"}])]}
    made = passport(URN, kept_in({URN: HISTORY | undated}), on_ms=START + 10 * DAY)
    assert made.made_from == ()
    oldest = f"version 3 ({date_of(START + 20 * DAY)})"
    assert made.unknown == (
        f"{PROPERTIES} of {URN}: the oldest that the catalog keeps is {oldest}",
        f"globalTags of {URN}: a version has no time",
    )


def test_a_version_has_the_code_and_the_data_of_its_run() -> None:
    custom = {
        "mlflow.datasets": '[{"name": "leads", "context": "train", "rows": 3}]',
        "mlflow.source.git.commit": "abc",
        "mlflow.source.name": "other.py",
        "mlcat.applied.prod": "2:",
        "team": "risk",
        "signature.inputs": '[{"type": "long", "name": "age", "required": true}, {"type": "long"}]',
    }
    of_version = {"mlflow.run_model": RUN, "mlflow.source.name": "train.py"}
    entities = {
        URN: {PROPERTIES: [version(1, 1, customProperties=of_version)]},
        RUN: {PROPERTIES: [version(2, 2, customProperties=custom)]},
    }
    made = passport(URN, kept_in(entities))
    assert [(line.label, line.text, line.entity) for line in made.of("code", "data", "other")] == [
        ("Entry point", "train.py", URN),
        ("mlflow.source.git.commit", "abc", RUN),
        ("train", "leads (rows 3)", RUN),
    ]
    assert (RUN, PROPERTIES, 2) in made.made_from
    columns = [line.text for line in passport(RUN, kept_in(entities)).of("features")]
    assert columns == ["age (type long; required true)", "(no name) (type long)"]


def test_what_mlflow_writes_as_json_is_read() -> None:
    tensor = {"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1, 2]}}
    signatures = {
        "models:/m-1": {"inputs": [{"name": "age"}]},
        "models:/m-2": {"outputs": [tensor]},
    }
    custom = {
        "mlflow.aliases": '["churn@champion", "churn@eu"]',
        "mlflow.signature": json.dumps(signatures),
        "mlflow.logged_models": '[{"name": "forest", "params": {"depth": "3"}}]',
    }
    entities = {URN: {PROPERTIES: [version(1, 1, customProperties=custom)]}}
    assert [(line.label, line.text) for line in passport(URN, kept_in(entities)).lines[:-1]] == [
        ("Aliases in MLflow", "churn@champion, churn@eu"),
        ("signature.inputs", "age (model models:/m-1)"),
        (
            "signature.outputs",
            "(no name) (type tensor; tensor-spec dtype: int64, shape: -1, 2; model models:/m-2)",
        ),
        ("mlflow.logged_models", "forest (params depth: 3)"),
    ]


def test_a_test_has_its_name_its_verdict_and_its_time() -> None:
    result = {"test": TEST, "type": "FAILURE", "lastComputed": {"time": START, "actor": "x"}}
    entities = {
        URN: {"testResults": [version(1, 1, failing=[result], passing=[])]},
        TEST: {"testInfo": [version(1, 1, name="Has an owner")]},
    }
    (line,) = passport(URN, kept_in(entities)).of("tests")
    assert (line.label, line.text) == (
        "Has an owner",
        f"failed (test {TEST}; lastComputed 2026-01-01 00:00:00 UTC)",
    )


def newest_first(versions: list[str]) -> dict[str, str]:
    return {one: f"{99 - at:02}" for at, one in enumerate(versions)}


def test_other_versions_of_the_registered_model_are_listed_with_their_aliases() -> None:
    tag = {"versionTag": "7"}
    of = {"version": tag, "aliases": [{"versionTag": "next"}], "comment": "not shown"}
    others = [model_urn(f"m_{at}") for at in range(30)]
    entities = {one: {"versionProperties": [version(2, 1, **of)]} for one in others}
    made = passport(URN, kept_in({URN: HISTORY} | entities), siblings=newest_first(others))
    shown_others = [line for line in made.of("identity") if line.entity != URN]
    assert len(shown_others) == 40
    assert [(line.label, line.value, line.entity) for line in shown_others[:2]] == [
        ("Other version", "7", others[0]),
        ("Alias of version 7", "next", others[0]),
    ]
    assert (others[19], "versionProperties", 2) in made.made_from
    assert made.unknown == ("10 older versions of the registered model",)


def test_a_card_of_a_day_lists_the_versions_of_that_day() -> None:
    others = [model_urn(f"m_{at}") for at in range(60)]
    of = {"version": {"versionTag": "7"}}
    entities = {
        one: {"versionProperties": [version(1, 60 - at, **of)]} for at, one in enumerate(others)
    }
    made = passport(
        URN, kept_in({URN: HISTORY} | entities), START + 25 * DAY, siblings=newest_first(others)
    )
    shown = [line.entity for line in made.of("identity") if line.entity != URN]
    assert shown == others[35:55]
    assert "5 older versions of the registered model" in made.unknown


def test_a_large_change_is_cut_with_its_rest_counted() -> None:
    after = params(**{f"p{at:02}": "1" for at in range(30)})
    history = {PROPERTIES: [version(2, 2, hyperParams=after), version(1, 1, name="m")]}
    change, first = passport(URN, kept_in({URN: history})).of("changes")
    assert change.value.startswith("name  removed: m → ;".replace("  ", " "))
    assert change.value.endswith("and 23 more")
    assert first.value == "first version"


def test_writers() -> None:
    written = [
        writer_text("ownership", "urn:li:corpuser:ada", {}),
        writer_text("ownership", "urn:li:corpuser:bo", {"pipelineName": "prod", "runId": "r-1"}),
        writer_text("ownership", "urn:li:corpuser:UNKNOWN", {"runId": "no-run-id-provided"}),
        writer_text("testResults", "urn:li:corpuser:unknown", {}),
        writer_text("ownership", "urn:li:corpuser:__datahub_system", {}),
    ]
    assert written == [
        "user ada",
        "recipe prod, run r-1, user bo",
        "a person or tool without a name",
        "the catalog",
        "the catalog",
    ]


@pytest.mark.parametrize("name", ["C #", "x ##", "# x", "*a* #"])
def test_the_title_of_a_card_shows_the_whole_name(name: str) -> None:
    made = passport(URN, kept_in({URN: {PROPERTIES: [version(1, 0, name=name)]}}))
    heading = MarkdownIt().parse(FORMS["md"](made))[1]
    assert "".join(part.content for part in heading.children or ()) == name
