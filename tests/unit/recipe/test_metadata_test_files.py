"""Metadata tests in files: every mistake in them is reported, with its place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import RecipeError, RecipeSyntaxError, RecipeValidationError
from mlcat_ingest.recipe.metadata_test_files import read_test_files, read_tests

GOOD = {"id": "x", "name": "n", "category": "c", "definition": {"on": {"types": []}, "rules": []}}


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "tests.yml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("wrap", [lambda test: test, lambda test: {"tests": [test]}])
def test_one_test_and_a_list_under_tests(wrap: Callable[[Any], Any], tmp_path: Path) -> None:
    [proposal] = read_tests(written(tmp_path, json.dumps(wrap(GOOD))))
    assert proposal.entity_urn == "urn:li:test:x"


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ([], "contains no test"),
        (["text"], "[0]: must be a mapping of keys to values"),
        ([{**GOOD, "nmae": "n"}], "nmae: is not a known key; did you mean `name`"),
        ([{**GOOD, "id": True}], "id: must be text"),
        ([{**GOOD, "id": ""}], "must not be empty"),
        ([{**GOOD, "id": " x "}], "cannot be used"),
        ([GOOD, GOOD], "is a duplicate"),
        ([{**GOOD, "name": ["n"]}], "name: must be text"),
        ([{"id": "x", "name": "n", "definition": GOOD["definition"]}], "category: is required"),
        ([{"id": "x", "name": "n", "category": "c"}], "definition: is required"),
        ([{**GOOD, "definition": "{"}], "definition: is not"),
        ([{**GOOD, "description": {}}], "description: must be text"),
    ],
)
def test_what_is_wrong_is_reported(tests: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeValidationError, match=problem.replace("[", r"\[")):
        read_tests(written(tmp_path, json.dumps(tests)))


def test_all_problems_are_listed(tmp_path: Path) -> None:
    with pytest.raises(RecipeValidationError) as caught:
        read_tests(written(tmp_path, json.dumps([{}, {**GOOD, "name": ""}])))
    assert len(caught.value.problems) == 5


def test_a_file_that_is_empty(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="file is empty"):
        read_tests(written(tmp_path, " \n"))


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    with pytest.raises(RecipeSyntaxError):
        read_tests(written(tmp_path, "{"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot read"):
        read_tests(tmp_path)


def test_one_test_in_two_files_is_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yml", tmp_path / "b.yml"
    for file in (first, second):
        file.write_text(json.dumps(GOOD))
    assert read_test_files([first])["urn:li:test:x"].file == first
    with pytest.raises(
        RecipeError, match=r"b\.yml: the metadata test urn:li:test:x is also in .*a\.yml"
    ):
        read_test_files([first, second])
