"""What the gate on metadata tests found, as values."""

from dataclasses import dataclass

from mlcat_ingest.core.text import printable


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """One test that the gate's pattern matches, and how many entities have which result of it.

    `newly_failing` are those of `failing` that did not fail it in the run before.
    """

    __test__ = False  # for pytest, this is no test class

    urn: str
    name: str | None = None
    passing: int = 0
    failing: int = 0
    newly_failing: int = 0

    @property
    def label(self) -> str:
        """The name, and the URN behind it; the URN alone where the name is not known."""
        urn = printable(self.urn)
        return urn if self.name is None else f"{self.name} ({urn})"


@dataclass(frozen=True, slots=True)
class FailedTest:
    """An entity that fails a test; `name` is what people call it."""

    entity: str
    test: str
    newly: bool
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What metadata tests say of a recipe's entities; only what was evaluated can pass.

    `not_evaluated` says why there are results that are not known, a reason each. `examples` are
    the first few failures, what newly fails before the rest; the numbers count them all.
    """

    pattern: str
    tests: tuple[TestVerdict, ...] = ()
    unevaluated: int = 0
    not_evaluated: tuple[str, ...] = ()
    examples: tuple[FailedTest, ...] = ()

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
        """Whether nothing fails and everything is known."""
        return not self.failing and not self.not_evaluated
