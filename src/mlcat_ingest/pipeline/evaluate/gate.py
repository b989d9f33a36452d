"""The gate on metadata tests: whether what matters fails, newly fails, passes, or is not known.

It judges by the last results of all entities of the recipe: those of this run, and of what did
not change since, those of the run that evaluated it. What has no result never counts as passed.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import MlcatError, StateUnavailableError
from mlcat_ingest.metadata.aspects.assets import TEST_INFO
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import properties_aspect
from mlcat_ingest.pipeline.report.labels import label_of
from mlcat_ingest.pipeline.report.verdict import FailedTest, TestVerdict, Verdict
from mlcat_ingest.pipeline.state.outcomes import Outcomes, Result

log = logging.getLogger(__name__)

EXAMPLES: Final = 20
"""How many failures a verdict names."""

TESTS: Final = 100
"""How many metadata tests a verdict names, those that fail first."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and a way to all the results behind it, entity by entity."""

    verdict: Verdict
    tests: tuple[TestVerdict, ...] = ()
    """All tests that the pattern matches, by URN; those of the verdict may be the first few."""
    outcomes: Outcomes | None = None

    def results(self, test: str) -> Iterator[tuple[str, Result]]:
        """Yield the entities with a result of `test`, in the order of their URNs.

        Cost: one pass over the last results, streamed.
        """
        if self.outcomes is not None:
            yield from self.outcomes.entities(
                lambda outcome: test in outcome.failing or test in outcome.passing
            )

    def unevaluated(self) -> Iterator[str]:
        """Yield the entities that have no result."""
        if self.outcomes is not None:
            yield from self.outcomes.unevaluated_entities()


@dataclass(frozen=True, slots=True)
class GateOptions:
    """Which metadata tests must not fail: those whose URN or name `pattern` is found in.

    `keep` is given the results while they can be read.
    """

    pattern: re.Pattern[str]
    keep: Callable[[Judged], None] | None = field(default=None, compare=False)


class MetadataGate:
    """Judges the results that a run has, and those it knows of."""

    def __init__(self, options: GateOptions, sink: Catalog, test_urns: Sequence[str]) -> None:
        """Look at the tests that `options` name; `test_urns` are those that a recipe insists on."""
        self._options = options
        self._sink = sink
        self._test_urns = test_urns

    def judge(self, outcomes: Outcomes, not_evaluated: str | None, *, ask_names: bool) -> Verdict:
        """Return the verdict; `not_evaluated` says why evaluation stopped, if it did.

        Without `ask_names` the service is not asked what the tests are called.

        Cost: one request for the names of a batch of tests; one pass over the last results.
        """
        try:
            judged = self._judged(outcomes, not_evaluated, ask_names=ask_names)
            self._keep(judged)
        except (SQLAlchemyError, StateUnavailableError):
            log.debug("reading results failed", exc_info=True)
            reason = not_evaluated or "the results cannot be read from the state database"
            judged = Judged(Verdict(self._pattern, not_evaluated=(reason,)))
            self._keep(judged)
        return judged.verdict

    @property
    def _pattern(self) -> str:
        return printable(self._options.pattern.pattern)

    def _keep(self, judged: Judged) -> None:
        if self._options.keep is not None:
            self._options.keep(judged)

    def _judged(self, outcomes: Outcomes, not_evaluated: str | None, *, ask_names: bool) -> Judged:
        groups = outcomes.groups()
        seen = {urn for found, _ in groups for urn in found.outcome.passing}
        seen |= {urn for found, _ in groups for urn in found.outcome.failing}
        names = self._names(sorted(seen.union(self._test_urns))) if ask_names else {}
        matching = [
            urn for urn in sorted(seen.union(self._test_urns)) if self._matches(urn, names.get(urn))
        ]
        tests = tuple(_verdict(urn, names.get(urn), groups) for urn in matching)
        unevaluated = outcomes.unevaluated()
        verdict = Verdict(
            pattern=self._pattern,
            tests=tuple(sorted(tests, key=_worst_first)[:TESTS]),
            unevaluated=unevaluated,
            not_evaluated=tuple(self._unknown(tests, seen, unevaluated, not_evaluated)),
            examples=self._named(_examples(outcomes, frozenset(matching)), ask_names=ask_names),
        )
        return Judged(verdict, tests, outcomes)

    def _matches(self, urn: str, name: str | None) -> bool:
        search = self._options.pattern.search
        return bool(search(urn) or (name is not None and search(name)))

    def _unknown(
        self,
        tests: Sequence[TestVerdict],
        seen: Collection[str],
        unevaluated: int,
        not_evaluated: str | None,
    ) -> Iterator[str]:
        """Yield why results are not known."""
        if not_evaluated is not None:
            yield not_evaluated
            return
        if unevaluated:
            yield f"the service gave no result for {unevaluated:,} of the entities"
        silent = [test.label for test in tests if test.urn not in seen]
        if silent:
            yield f"the service gave no result of {', '.join(silent[:3])}{_more(silent[3:])}"
        if not tests:
            what = (
                "no metadata test that was evaluated" if seen else "nothing was evaluated: no test"
            )
            yield f"{what} matches {self._pattern!r}"

    def _named(self, examples: Iterator[FailedTest], *, ask_names: bool) -> tuple[FailedTest, ...]:
        """Return `examples` with what people call their entities; one request an entity type."""
        found = list(examples)
        by_type: dict[str, set[str]] = {}
        for one in found if ask_names else ():
            by_type.setdefault(entity_type_of(one.entity), set()).add(one.entity)
        labels: dict[str, str | None] = {}
        try:
            for entity_type, urns in by_type.items():
                home = properties_aspect(entity_type)
                stored = {} if home is None else self._sink.read_many(sorted(urns), [home])
                for urn, aspects in stored.items():
                    labels[urn] = label_of(aspects[str(home)].value) if home in aspects else None
        except MlcatError as error:
            log.warning("the names of entities cannot be read: %s", error)
        return tuple(
            replace(one, name=label and printable(label))
            for one in found
            for label in [labels.get(one.entity)]
        )

    def _names(self, urns: Sequence[str]) -> dict[str, str]:
        names: dict[str, str] = {}
        try:
            for start in range(0, len(urns), MAX_REQUEST_ITEMS):
                found = self._sink.read_many(urns[start : start + MAX_REQUEST_ITEMS], [TEST_INFO])
                for urn, aspects in found.items():
                    name = aspects[TEST_INFO].value.get("name") if TEST_INFO in aspects else None
                    if isinstance(name, str) and name:
                        names[urn] = printable(name)
        except MlcatError as error:
            log.warning("the names of metadata tests cannot be read: %s", error)
        return names


def _verdict(urn: str, name: str | None, groups: Sequence[tuple[Result, int]]) -> TestVerdict:
    counts = Counter[str]()
    for found, entities in groups:
        counts["passing"] += entities * (urn in found.outcome.passing)
        counts["failing"] += entities * (urn in found.outcome.failing)
        counts["newly_failing"] += entities * (urn in found.newly_failing)
    return TestVerdict(urn, name, counts["passing"], counts["failing"], counts["newly_failing"])


def _worst_first(test: TestVerdict) -> tuple[int, int, str]:
    return -test.newly_failing, -test.failing, test.urn


def _examples(outcomes: Outcomes, matching: frozenset[str]) -> Iterator[FailedTest]:
    """Yield the first failures: those that are new, then the others."""
    new = list(islice(_failures(outcomes, matching, newly=True), EXAMPLES))
    yield from new
    yield from islice(_failures(outcomes, matching, newly=False), EXAMPLES - len(new))


def _failures(outcomes: Outcomes, matching: frozenset[str], *, newly: bool) -> Iterator[FailedTest]:
    for urn, found in outcomes.entities(lambda one: not matching.isdisjoint(one.failing)):
        new = found.newly_failing
        failing = new if newly else frozenset(found.outcome.failing) - new
        for test in sorted(matching & failing):
            yield FailedTest(urn, test, newly)


def _more(rest: Sequence[str]) -> str:
    return f" and {len(rest):,} more" if rest else ""
