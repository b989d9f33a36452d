"""The change log of writes that met those of others."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import SECRETS
from mlcat_ingest.workflows.changes import ChangeLog
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from support.fakes import FakeSink, FakeSource, model_urn
from support.sides import Built

URN, HOME = model_urn("r"), "mlModelProperties"


def run(sink: FakeSink, file: Path, **properties: object) -> list[tuple[Any, ...]]:
    """Return field, entry, before, after and reason of each change of a run."""
    source = FakeSource([[Entity(URN, {HOME: {"name": "r", **properties}})]])
    recipe = Recipe.parse("{name: test, sources: [{type: mlflow}]}")
    resolved = ResolvedRecipe(recipe, (Built(source),), Built(sink))  # type: ignore[arg-type]
    changes = ChangeLog(file, ())
    assert Pipeline(resolved).run(changes=changes).exit_code == 0
    changes.close()
    names = ("field", "entry", "before", "after", "why")
    records = map(json.loads, file.read_text().splitlines())
    return [tuple(one.get(name) for name in names) for one in records]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "changes.jsonl"


@pytest.mark.parametrize("checks_versions", [True, False])
def test_changes_around_a_write_of_others(file: Path, *, checks_versions: bool) -> None:
    sink = FakeSink(place="fake://catalog", checks_versions=checks_versions)
    run(sink, file, description="one", trainingJobs=["a"])
    theirs = {**sink.stored[URN][HOME], "trainingJobs": ["a", "theirs"]}
    writes = 0

    def meddle(_: object) -> None:
        nonlocal writes
        writes += 1
        # The first write asks whether versions are checked.
        if writes == 2:
            sink.put(URN, HOME, theirs)

    sink.before_write = meddle
    made = run(sink, file, description="two", trainingJobs=["b"])
    assert sorted(sink.stored[URN][HOME]["trainingJobs"]) == ["b", "theirs"]
    source = "changed at the source"
    expected = {
        ("description", None, "one", "two", source),
        ("trainingJobs", "a", "a", None, source),
        ("trainingJobs", "b", None, "b", source),
    }
    restored = ("trainingJobs", "theirs", None, "theirs", "restored after a conflict")
    assert set(made) == (expected if checks_versions else {*expected, restored})
    assert len(made) == len(set(made))


def test_a_value_that_others_changed_has_a_reason_of_its_own(file: Path) -> None:
    sink = FakeSink(place="fake://catalog")
    run(sink, file, description="one")
    sink.put(URN, HOME, {**sink.stored[URN][HOME], "description": "theirs"})
    again = ("description", None, "theirs", "one", "changed by others, unchanged at the source")
    assert run(sink, file, description="one") == [again]


def test_secrets_are_not_shown(file: Path) -> None:
    SECRETS.add("hunter2-hunter2")
    run(FakeSink(), file, description="it is hunter2-hunter2")
    assert "it is ***" in file.read_text()
    assert "hunter2" not in file.read_text()
