"""The ladder: the first rule whose evidence says something decides which features are linked."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.links import rules
from mlcat_ingest.links.evidence import Evidence, LinkOptions
from mlcat_ingest.links.features import Features, Wanted
from mlcat_ingest.links.rules import Case, Claim, Rule

LADDER: Final[tuple[Rule, ...]] = (
    rules.declared,
    rules.feature_spec,
    rules.feast_refs,
    rules.feast_file,
    rules.feast_service,
    rules.feast_refs_cut,
    rules.dataset_match,
    rules.signature_names,
)
"""From what people said to what is guessed."""

NO_CLAIM: Final = Claim("", ())

Exists = Callable[[str], bool | None]
"""Whether the catalog has a feature; None where it could not be asked."""


def climb(evidence: Evidence, features: Features, options: LinkOptions) -> tuple[Claim, list[str]]:
    """Return what the first rule found that found anything, and what of the evidence is of no use.

    `NO_CLAIM` where no rule did.
    """
    case = Case(evidence, features, options)
    found = (rule(case) for rule in LADDER)
    return next((claim for claim in found if claim is not None), NO_CLAIM), case.problems


@dataclass(frozen=True, slots=True)
class Links:
    """The features of one model: `urns`, sorted, each once.

    `unknown` and `ambiguous` are references without a link, as they were spelled. Where not
    `complete`, something could not be looked up, and what is stored must stay.
    """

    rule: str = ""
    urns: tuple[str, ...] = ()
    approximate: str = ""
    unknown: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    complete: bool = True


def settle(claim: Claim, exists: Exists, *, dangling: bool) -> Links:
    """Return the links that follow from `claim`; to what is not there only if `dangling`."""
    there: set[str] = set()
    unknown: list[Wanted] = []
    complete = claim.complete
    for one in claim.wanted:
        if one.state not in {"held", "to_ask"} or one.urn is None:
            unknown.append(one)
            continue
        answer = exists(one.urn)
        if answer or (answer is None and one.state == "held"):
            there.add(one.urn)
        elif answer is None:
            complete = False
        else:
            unknown.append(one)
    lacking = [one for one in unknown if one.state not in {"ambiguous", "no_input"}]
    if dangling:
        there.update(one.urn for one in lacking if one.urn is not None)
        lacking = [one for one in lacking if one.urn is None]
    return Links(
        rule=claim.rule,
        urns=tuple(sorted(there)),
        approximate=claim.approximate,
        unknown=_texts(lacking),
        ambiguous=_texts(one for one in unknown if one.state == "ambiguous"),
        complete=complete,
    )


def _texts(some: Iterable[Wanted]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.text for one in some))
