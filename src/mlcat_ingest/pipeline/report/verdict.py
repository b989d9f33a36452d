"""The verdict of the quality gate: the results of the metadata tests that it looks at."""

from dataclasses import dataclass

from mlcat_ingest.core.text import printable


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """A test that the pattern of the quality gate matches."""

    __test__ = False  # for pytest, this is no test class

    urn: str
    """URN of the test."""
    name: str | None = None
    """Name of the test, if it is known."""
    passing: int = 0
    """Entities that pass the test."""
    failing: int = 0
    """Entities that fail the test."""
    newly_failing: int = 0
    """Entities among these that did not fail it in the run before."""

    @property
    def label(self) -> str:
        """The name, and the URN behind it; the URN alone where the name is not known."""
        return f"{self.name} ({printable(self.urn)})" if self.name else printable(self.urn)


@dataclass(frozen=True, slots=True)
class FailedTest:
    """An entity that fails a test."""

    entity: str
    """URN of the entity."""
    test: str
    """URN of the test."""
    newly: bool
    """True if the entity did not fail the test in the run before."""
    name: str | None = None
    """Display name of the entity."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of the quality gate on the entities of a recipe; only evaluated tests pass."""

    pattern: str
    """Pattern of `--fail-on-tests`."""
    tests: tuple[TestVerdict, ...] = ()
    """Tests that the pattern matches, each with its results."""
    unevaluated: int = 0
    """Results that are not known."""
    not_evaluated: tuple[str, ...] = ()
    """Reasons why results are not known."""
    examples: tuple[FailedTest, ...] = ()
    """The first few failures, new ones first."""

    @property
    def passing(self) -> int:
        """Results that pass, one a test and entity."""
        return sum(test.passing for test in self.tests)

    @property
    def failing(self) -> int:
        """Results that fail, old and new."""
        return sum(test.failing for test in self.tests)

    @property
    def newly_failing(self) -> int:
        """Results that fail and did not in the run before."""
        return sum(test.newly_failing for test in self.tests)

    @property
    def passed(self) -> bool:
        """True if nothing fails and every result is known."""
        return not self.failing and not self.not_evaluated
