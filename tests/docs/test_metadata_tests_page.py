"""The page on metadata tests, the suites that come with the project, and their JSON Schema."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.passport import KeptVersion, passport
from mlcat_ingest.metadata_tests.definition import NAMES
from mlcat_ingest.metadata_tests.evaluate import evaluate, read_test
from mlcat_ingest.recipe.loader import parse
from mlcat_ingest.recipe.metadata_test_files import read_tests
from mlcat_ingest.workflows.schema import metadata_tests_schema
from support.fakes import kept_in

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "metadata-tests.md").read_text()
SUITES = sorted((ROOT / "recipes" / "tests").glob("*.yml"))
EXAMPLES = dict(re.findall(r"^\| `(\w+)` \| `(\{.*\})` \|", PAGE, re.MULTILINE))
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
URN = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a,PROD)"
VALIDATOR = jsonschema.Draft202012Validator(metadata_tests_schema())


@dataclass(frozen=True)
class Aspect:
    """A stored aspect of the page's model."""

    value: Mapping[str, Any]
    system_metadata: Mapping[str, Any] = field(default_factory=dict)
    created_ms: int = 0
    modified_ms: int = 0


def outcome(rule: str) -> bool:
    model = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    return passes({"on": {"types": ["mlModel"]}, "rules": yaml.safe_load(rule)}, model)


def passes(definition: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    test = read_test("urn:li:test:t", {"definition": {"json": json.dumps(definition)}})
    assert test is not None
    aspects = {name: Aspect(value) for name, value in model.items()}

    def fetch(
        urns: Iterable[str], names: Collection[str] | None
    ) -> Mapping[str, Mapping[str, Aspect]]:
        del names
        return {URN: aspects} if URN in urns else {}

    results = evaluate(fetch, [URN], [test], "urn:li:corpuser:me")[URN]
    return bool(results["passing"]) and not results["failing"]


def test_the_page_has_each_operator_once() -> None:
    assert EXAMPLES.keys() == NAMES


@pytest.mark.parametrize("operator", sorted(NAMES))
def test_the_example_of_an_operator_passes(operator: str) -> None:
    example = EXAMPLES[operator]
    assert f"operator: {operator}" in example
    assert outcome(example)
    assert VALIDATOR.is_valid(a_test(yaml.safe_load(example)))


def test_the_combination_of_predicates_is_read() -> None:
    (block,) = (one for one in BLOCKS if one.startswith("rules:"))
    assert not outcome(block.removeprefix("rules:"))
    assert VALIDATOR.is_valid(a_test(yaml.safe_load(block)["rules"]))


def test_the_file_of_the_page_is_that_of_the_suite(tmp_path: Path) -> None:
    (block,) = (one for one in BLOCKS if one.startswith("- id:"))
    (tmp_path / "tests.yml").write_text(block)
    (proposal,) = read_tests(tmp_path / "tests.yml")
    quality = read_tests(ROOT / "recipes" / "tests" / "quality.yml")
    assert proposal in quality


@pytest.mark.parametrize("file", SUITES, ids=lambda file: str(file.stem))
def test_a_suite_is_read_and_fits_the_schema(file: Path) -> None:
    assert read_tests(file)
    assert [
        each.message for each in VALIDATOR.iter_errors(parse(file.read_bytes(), file.name).data)
    ] == []
    schema = file.read_text().splitlines()[0].rpartition("=")[2]
    assert (file.parent / schema).resolve() == ROOT / "docs" / "metadata-tests.schema.json"


def test_the_suites_hold_no_test_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(SUITES) == 4
    assert call(["catalog", "tests", "check", *map(str, SUITES)]) == 0
    printed = capsys.readouterr().out.splitlines()
    counts = ("1 metadata test", "3 metadata tests", "3 metadata tests", "3 metadata tests")
    assert printed == [f"{file}: {count}" for file, count in zip(SUITES, counts, strict=True)]


@pytest.mark.parametrize(
    "change",
    [
        lambda test: test.pop("name"),
        lambda test: test.update(ids="x"),
        lambda test: test["definition"].pop("rules"),
        lambda test: test["definition"]["on"].pop("types"),
        lambda test: test["definition"].update(rules={"property": "a", "operator": "is"}),
        lambda test: test["definition"].update(rules={"property": "a", "operator": "equals"}),
        lambda test: test["definition"].update(rules={"and": [], "or": []}),
    ],
)
def test_reader_and_schema_refuse_the_same(
    change: Callable[[dict[str, Any]], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = a_test({"property": "a", "operator": "exists"})
    change(test)
    assert not VALIDATOR.is_valid(test)
    (tmp_path / "tests.json").write_text(json.dumps(test))
    assert call(["catalog", "tests", "check", str(tmp_path / "tests.json")]) == 2
    assert f"{tmp_path / 'tests.json'}:1: " in capsys.readouterr().err


def a_test(rules: object) -> dict[str, Any]:
    definition = {"on": {"types": ["mlModel"]}, "rules": rules}
    return {"id": "a", "name": "A", "category": "B", "definition": definition}


CARD: dict[str, dict[str, Any]] = {
    "versionProperties": {"aliases": [{"versionTag": "champion"}]},
    "intendedUse": {"primaryUses": ["a"], "primaryUsers": ["HOBBY"], "outOfScopeUses": ["b"]},
    "mlModelCaveatsAndRecommendations": {"recommendations": "c"},
    "mlModelFactorPrompts": {"relevantFactors": [{"groups": ["d"]}]},
    "mlModelEthicalConsiderations": {
        "risksAndHarms": ["e"],
        "mitigations": ["f"],
        "humanLife": ["g"],
    },
    "mlModelMetrics": {"performanceMeasures": ["h"]},
}
"""A model of which people wrote all parts of the card that only they know."""


def missing(model: Mapping[str, Mapping[str, Any]]) -> int:
    """Return how many parts are missing that only people know."""
    kept = {name: [KeptVersion(1, value, 1, "ada")] for name, value in model.items()}
    return sum(part.by == "a person" for part in passport(URN, kept_in({URN: kept})).missing)


def test_the_suite_asks_for_the_parts_of_a_card_that_people_write() -> None:
    (test,) = parse((ROOT / "recipes" / "tests" / "card.yml").read_bytes(), "card.yml").data
    definition = test["definition"]
    assert passes(definition, CARD)
    assert missing(CARD) == 0
    parts = [(name, key) for name, value in [*CARD.items()][1:] for key in value]
    for name, left_out in parts:
        rest = {key: value for key, value in CARD[name].items() if key != left_out}
        assert missing({**CARD, name: rest}) == 1
        assert not passes(definition, {**CARD, name: rest})
    assert len(parts) == missing({})
