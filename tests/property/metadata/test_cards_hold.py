"""Cards of any model: their judges take them, each line has its origin, and changes stay local."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.card_formats import FORMS
from mlcat_ingest.metadata.passport import CardLine, Kept, KeptVersion, Passport, passport
from support.fakes import kept_in, model_urn
from support.names import HOSTILE

URN = model_urn("m")
RUN = model_urn("r")
PROPERTIES = "mlModelProperties"
texts = st.sampled_from(
    [*HOSTILE, "nan", "-inf", "", "---\n", "a\n---\nb", "https://x/\u2028", "[1"]
)
words = texts | st.text(st.characters(exclude_categories=["Cs"])) | st.just("long " * 4_000)
names = st.lists(words, max_size=4, unique=True)


def records(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({"name": words}, optional=fields), max_size=4)


def aspects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


owners = st.lists(st.fixed_dictionaries({"owner": words, "type": st.just("NONE")}), max_size=2)
models = aspects(
    mlModelProperties=aspects(
        name=words,
        description=words,
        externalUrl=words,
        customProperties=st.dictionaries(
            words
            | st.sampled_from(["mlflow.datasets", "mlflow.model_flavors", "signature.inputs"]),
            words | st.sampled_from(['[{"name": "d", "context": "train"}, {}]', "sklearn,x"]),
            max_size=4,
        ),
        hyperParams=records(value=words),
        trainingMetrics=records(value=words, createdAt=st.integers(0, 2**62), description=words),
        mlFeatures=names,
        version=aspects(versionTag=words),
        created=aspects(time=st.integers(-(2**62), 2**62), actor=words),
    ),
    ownership=aspects(owners=owners),
    versionProperties=aspects(version=aspects(versionTag=words), sortId=words),
    sourceCode=aspects(sourceCode=st.lists(aspects(type=words, sourceCodeUrl=words), max_size=2)),
    intendedUse=aspects(primaryUses=names, outOfScopeUses=names),
    mlModelFactorPrompts=aspects(relevantFactors=st.lists(aspects(groups=names), max_size=2)),
    mlModelEthicalConsiderations=aspects(data=names, risksAndHarms=names, mitigations=names),
    mlModelCaveatsAndRecommendations=aspects(
        caveats=aspects(caveatDescription=words, needsFurtherTesting=st.booleans()),
        recommendations=words,
    ),
    mlModelTrainingData=aspects(trainingData=st.lists(aspects(dataset=words), max_size=2)),
    testResults=aspects(failing=st.lists(aspects(test=words), max_size=2)),
    globalTags=aspects(tags=st.lists(aspects(tag=words), max_size=2)),
    unknownAspect=aspects(anything=st.recursive(words, st.lists, max_leaves=3)),
)


def kept(*versions: Mapping[str, Any], oldest: int = 1) -> Kept:
    """Return the versions of aspects, of which the last of `versions` are the newest."""
    found: dict[str, list[KeptVersion]] = {}
    for at, model in enumerate(versions):
        for name, value in model.items():
            before = found.setdefault(name, [])
            number = before[0].number + 1 if before else oldest
            before.insert(0, KeptVersion(number, value, at * 86_400_000, f"user {at}"))
    return found


@cache
def judge() -> JsonStrictValidator:
    return JsonStrictValidator(SchemaVersion.V1_6)


def rows(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("| ")]


@given(models, models, st.sampled_from([None, 0]))
def test_the_judges_take_each_card(
    one: dict[str, Any], two: dict[str, Any], on_ms: int | None
) -> None:
    made = passport(URN, kept_in({URN: kept(one, two), RUN: kept(two)}), on_ms)
    assert judge().validate_str(FORMS["cyclonedx"](made)) is None
    card = ModelCard(FORMS["hf"](made), ignore_metadata_errors=False)
    assert card.data.get("model_name") == made.name
    data = json.loads(FORMS["json"](made))
    assert len(data["lines"]) == len(made.lines)
    for form in ("md", "annex-iv"):
        text = FORMS[form](made)
        assert all(row.count(" | ") >= 2 for row in rows(text)), text
        assert not [row for row in text.split("\n") if "<script" in row or "\r" in row]
    assert len(rows(FORMS["md"](made))) >= len(made.lines) + len(made.missing)


@given(models, models)
def test_each_line_has_a_source_and_a_writer(one: dict[str, Any], two: dict[str, Any]) -> None:
    for line in passport(URN, kept_in({URN: kept(one, two, oldest=3)})).lines:
        assert line.entity == URN
        assert line.source
        assert line.version >= 3
        assert line.writer.startswith(("user ", "not known: "))


def facts(made: Passport) -> set[CardLine]:
    return {line for line in made.lines if line.topic != "changes"}


@given(models, st.sampled_from(["hyperParams", "trainingMetrics"]), words)
def test_a_changed_value_changes_its_line_alone(
    model: dict[str, Any], field: str, value: str
) -> None:
    before = {"name": "m", **model.get(PROPERTIES, {}), field: [{"name": "lr", "value": "0"}]}
    after = {**before, field: [{"name": "lr", "value": f"1{value}"}]}
    first = {**model, PROPERTIES: before}
    old = passport(URN, kept_in({URN: kept(first)}))
    new = passport(URN, kept_in({URN: kept(first, {PROPERTIES: after})}))
    (gone,), (came,) = facts(old) - facts(new), facts(new) - facts(old)
    assert (gone.label, gone.value, gone.version) == ("lr", "0", 1)
    assert (came.label, came.value, came.version, came.writer) == ("lr", f"1{value}", 2, "user 1")
    assert len(new.lines) == len(old.lines) + 1
    assert passport(URN, kept_in({URN: kept(first, {PROPERTIES: after})}), 0).lines == old.lines
