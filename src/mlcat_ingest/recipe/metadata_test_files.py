"""Metadata tests in files, YAML or JSON: one test, a list of them, or a list under `tests`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from mlcat_ingest.errors import DefinitionError, InvalidUrnError, RecipeError
from mlcat_ingest.metadata.aspects import TEST_INFO
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import build
from mlcat_ingest.recipe.fields import RecipeModel
from mlcat_ingest.recipe.loader import Loc, read_file
from mlcat_ingest.recipe.validate import validate_config

_URN: Final = "urn:li:test:"


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _urn(name: str) -> str:
    try:
        return build("test", name.removeprefix(_URN))
    except InvalidUrnError as error:
        raise ValueError(f"cannot be used: {error}") from None


def _definition(value: Any) -> str:
    from mlcat_ingest.metadata_tests.definition import read_definition

    text = value if isinstance(value, str) else dumps(value).decode()
    try:
        read_definition(text)
    except DefinitionError as error:
        raise ValueError("; ".join(error.problems)) from None
    return text


_Text = Annotated[str, BeforeValidator(_as_text)]
_Word = Annotated[str, StringConstraints(min_length=1), BeforeValidator(_as_text)]


class TestInFile(RecipeModel):
    """A metadata test of a file."""

    id: Annotated[_Word, AfterValidator(_urn)]
    """The end of the URN, or the whole URN."""
    name: _Word
    category: _Word
    description: _Text = ""
    definition: Annotated[str, BeforeValidator(_definition)]


@dataclass(frozen=True, slots=True)
class FileTest:
    """A metadata test in a file: its `proposal` is the one that creates it."""

    file: Path
    proposal: Proposal


def read_test_files(paths: Iterable[Path]) -> dict[str, FileTest]:
    """Return the metadata tests in the files at `paths`, by URN.

    Raises:
        RecipeError: as `read_tests`, or two files hold one test.
    """
    tests: dict[str, FileTest] = {}
    for path in paths:
        for proposal in read_tests(path):
            urn = proposal.entity_urn
            if urn in tests:
                raise RecipeError(
                    f"{path}: the metadata test {urn} is also in {tests[urn].file}",
                    hint="keep it in one of the files",
                )
            tests[urn] = FileTest(path, proposal)
    return tests


def read_tests(path: Path) -> list[Proposal]:
    """Return a proposal for each metadata test in the YAML or JSON file at `path`.

    Raises:
        RecipeError: the file cannot be read.
        RecipeSyntaxError: it is neither YAML nor JSON.
        RecipeValidationError: a test in it is wrong; all of it is listed, with its line.
        MissingExtraError: a test holds a regular expression, and RE2 is not installed.
    """
    draft = read_file(path, "file of metadata tests", "correct its path")
    origin, problems, proposals = draft.origin, [*draft.problems], dict[str, Proposal]()
    for loc, raw in _tests(draft.data):
        test, found = validate_config(TestInFile, raw, loc, origin)
        problems += found
        if test is not None and test.id in proposals:
            problems.append(origin.problem((*loc, "id"), "is a duplicate"))
        elif test is not None:
            aspect = test.model_dump(exclude={"id"}, exclude_unset=True)
            aspect["definition"] = {"type": "JSON", "json": test.definition}
            proposals[test.id] = Proposal(test.id, TEST_INFO, aspect)
    if not proposals and not problems:
        problems.append(origin.problem((), "contains no test"))
    if problems:
        raise origin.error(problems)
    return list(proposals.values())


def _tests(data: Any) -> Iterator[tuple[Loc, Any]]:
    """Yield each test and its place: of a list, of a list under `tests`, or the only one."""
    place: Loc = ()
    if isinstance(data, Mapping) and set(data) == {"tests"}:
        data, place = data["tests"], ("tests",)
    if not isinstance(data, list):
        yield place, data
        return
    for index, test in enumerate(data):
        yield (*place, index), test
