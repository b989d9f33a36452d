"""Metadata tests in files, YAML or JSON: one test, a list of them, or a list under `tests`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.errors import DefinitionError, InvalidUrnError, RecipeError
from mlcat_ingest.metadata.aspects.assets import TEST_INFO
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import build
from mlcat_ingest.recipe.loader import Loc, Origin, Problem, parse

_FIELDS: Final = ("id", "name", "category", "description", "definition")
_URN: Final = "urn:li:test:"


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
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from None
    if not content.strip():
        raise RecipeError(f"{path} is empty")
    parsed = parse(content, str(path))
    origin = Origin(str(path), path.absolute().parent, parsed.lines)
    reader = _TestsReader(origin, parsed.problems)
    proposals = [reader.proposal(loc, test) for loc, test in _tests(parsed.data)]
    if not proposals:
        reader.problem((), "contains no test")
    if reader.problems:
        raise origin.error(reader.problems)
    return proposals


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


class _TestsReader:
    """Makes proposals of tests; keeps every problem with its line."""

    def __init__(self, origin: Origin, problems: list[Problem]) -> None:
        self.problems = list(problems)
        self._origin = origin
        self._seen: set[str] = set()

    def problem(self, loc: Loc, sentence: str) -> None:
        self.problems.append(self._origin.problem(loc, sentence))

    def proposal(self, loc: Loc, test: Any) -> Proposal:
        if not isinstance(test, Mapping):
            self.problem(loc, "a metadata test is a mapping with id, name, category, definition")
            test = dict.fromkeys(_FIELDS, "")
        else:
            for key in test:
                if key not in _FIELDS:
                    self.problem((*loc, key), f"is not one of {', '.join(_FIELDS)}")
        urn = self._urn(loc, self._text(loc, test, "id"))
        aspect: dict[str, Any] = {
            "name": self._text(loc, test, "name"),
            "category": self._text(loc, test, "category"),
        }
        if "description" in test:
            aspect["description"] = self._text(loc, test, "description")
        aspect["definition"] = {"type": "JSON", "json": self._definition(loc, test)}
        return Proposal(urn, TEST_INFO, aspect)

    def _text(self, loc: Loc, test: Mapping[str, Any], field: str) -> str:
        value = test.get(field)
        if not isinstance(value, str | int) or isinstance(value, bool):
            self.problem((*loc, field) if field in test else loc, f"`{field}` must be a text")
            return ""
        if value == "" and field != "description":
            self.problem((*loc, field), "must not be empty")
        return str(value)

    def _urn(self, loc: Loc, name: str) -> str:
        if not name:
            return ""
        try:
            urn = build("test", name.removeprefix(_URN))
        except InvalidUrnError as error:
            self.problem((*loc, "id"), f"cannot be used: {error}")
            return ""
        if urn in self._seen:
            self.problem((*loc, "id"), "is a duplicate")
        self._seen.add(urn)
        return urn

    def _definition(self, loc: Loc, test: Mapping[str, Any]) -> str:
        from mlcat_ingest.metadata_tests.definition import read_definition

        definition = test.get("definition")
        if definition is None:
            self.problem(loc, "needs a `definition` with entities (`on`) and `rules`")
            return ""
        text = definition if isinstance(definition, str) else dumps(definition).decode()
        try:
            read_definition(text)
        except DefinitionError as error:
            for sentence in error.problems:
                self.problem((*loc, "definition"), sentence)
        return text
