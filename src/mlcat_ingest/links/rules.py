"""The rules: each looks at one kind of evidence, and says which features it names, if any."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mlcat_ingest.links.evidence import (
    FEAST_FILE,
    FEAST_REFS,
    FEAST_SERVICE,
    Evidence,
    FeastTags,
    LinkOptions,
)
from mlcat_ingest.links.features import Features, Wanted
from mlcat_ingest.links.files import UnreadableFileError, listed_features, spec_features
from mlcat_ingest.links.refs import Ref, entries, feast_ref, is_feature_urn, table_ref
from mlcat_ingest.metadata.reserved import FEATURES_TAG

DECLARED: Final = FEATURES_TAG
FEATURE_SPEC: Final = "feature_spec.yaml"
DATASET_MATCH: Final = "dataset_match"
SIGNATURE_NAMES: Final = "signature_names"


class Claim(NamedTuple):
    """What a rule found: features that the run names.

    `approximate` says why they may be others than the run used. A claim that is not `complete`
    could not be looked up as a whole, so nothing follows from what is not in it.
    """

    rule: str
    wanted: tuple[Wanted, ...]
    approximate: str = ""
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """One model: its evidence, and where to look it up; `problems` takes what is of no use."""

    evidence: Evidence
    features: Features
    options: LinkOptions
    problems: list[str] = field(default_factory=list)

    def look_up(self, refs: Iterable[Ref], feature_set: str | None = None) -> list[Wanted]:
        """Return what each of `refs` means."""
        elsewhere = self.options.elsewhere
        return [self.features.look_up(ref, elsewhere, feature_set) for ref in refs]

    def project(self, feast: FeastTags | None) -> str | None:
        """Return the project that Feast's tags are about, None where nobody says which."""
        named = feast.project if feast is not None else None
        return named or self.options.project or self.features.only_namespace()


Rule = Callable[[Case], Claim | None]
"""Returns None where its evidence says nothing."""


def declared(case: Case) -> Claim | None:
    """Features that people named, by the tag `mlcat.features`."""
    texts = list(entries(case.evidence.declared or ""))
    return Claim(DECLARED, tuple(_declared(case, texts))) if texts else None


def _declared(case: Case, texts: Iterable[str]) -> Iterator[Wanted]:
    for text in texts:
        ref = table_ref(text)
        if is_feature_urn(text):
            yield case.features.look_up_urn(text)
        elif ref is None or text.startswith("urn:"):
            yield Wanted(text, "unknown")
        else:
            yield from case.look_up([ref])


def feature_spec(case: Case) -> Claim | None:
    """Features that Databricks packaged with the model, which looks them up itself."""
    refs: list[Ref] = []
    for text in case.evidence.feature_specs:
        try:
            refs += spec_features(text)
        except UnreadableFileError as error:
            case.problems.append(f"{FEATURE_SPEC}: {error}")
    return Claim(FEATURE_SPEC, tuple(case.look_up(refs))) if refs else None


def feast_refs(case: Case) -> Claim | None:
    """The references that Feast wrote when features were last asked for, if they are whole."""
    feast = _training(case)
    if feast is None or feast.is_cut or not feast.refs:
        return None
    return _of_feast(case, feast, FEAST_REFS, feast.refs)


def feast_file(case: Case) -> Claim | None:
    """The file that Feast logs beside a model, if it holds as many references as were counted."""
    text, training = case.evidence.features_file, _training(case)
    if text is None:
        return None
    try:
        listed = listed_features(text)
    except UnreadableFileError as error:
        case.problems.append(f"{FEAST_FILE}: {error}")
        return None
    expected = None if training is None else training.count
    if not listed or expected not in {None, len(listed)} or listed[-1].endswith("..."):
        return None  # it is made from the tag, and so cut where the tag is
    return _of_feast(case, case.evidence.feast or FeastTags(), FEAST_FILE, listed)


def feast_service(case: Case) -> Claim | None:
    """The features of the service today, where the references are missing or cut.

    Feast guesses the service: it takes the smallest that has all features asked for. So one with
    more features than were asked for, or without one of those that are known, is not the one.
    """
    feast = _training(case)
    if feast is None or feast.service is None or (feast.refs and not feast.is_cut):
        return None
    project = case.project(feast)
    if project is None:
        return _unresolved(FEAST_SERVICE, feast.service, ambiguous=True)
    found, name = case.features.sets(project, feast.service), f"{project}.{feast.service}"
    if len(found) != 1:
        known = bool(found) or case.features.knows_all_of(project)
        claim = _unresolved(FEAST_SERVICE, name, ambiguous=bool(found), complete=known)
        return None if feast.is_cut else claim
    refs = list(found[0].refs(project))
    if feast.is_cut and not _covers(case, feast, refs):
        return None
    why = "its references are cut" if feast.is_cut else "it has no references"
    text = f"{why}, so they are those of the service {feast.service} today"
    return Claim(FEAST_SERVICE, _narrowed(case, case.look_up(refs)), text)


def _covers(case: Case, feast: FeastTags, refs: Sequence[Ref]) -> bool:
    held = {wanted.urn for wanted in case.look_up(refs)}
    asked = case.look_up(_refs(feast.refs, case.project(feast)), feast.service)
    return {one.urn for one in asked} <= held and feast.count in {None, len(refs)}


def feast_refs_cut(case: Case) -> Claim | None:
    """The references that were not cut away, where nothing says what the others were."""
    feast = _training(case)
    if feast is None or not feast.is_cut:
        return None
    of = "" if feast.count is None else f" of {feast.count}"
    text = f"its references are cut: {len(feast.refs)}{of} are known"
    claim = _of_feast(case, feast, FEAST_REFS, feast.refs)
    return claim._replace(approximate=text)


def _training(case: Case) -> FeastTags | None:
    """Return Feast's tags if the features they are about were asked for to train with."""
    feast = case.evidence.feast
    return feast if feast is not None and feast.retrieval in {None, "historical"} else None


def _of_feast(case: Case, feast: FeastTags, rule: str, texts: Sequence[str]) -> Claim:
    project = case.project(feast)
    if project is None:
        # Views of one name may be in several projects, and none is named.
        return Claim(rule, tuple(Wanted(text, "ambiguous") for text in texts))
    unreadable = [Wanted(text, "unknown") for text in texts if feast_ref(text, project) is None]
    found = case.look_up(_refs(texts, project), feast.service)
    return Claim(rule, (*_narrowed(case, found), *unreadable))


def _refs(texts: Iterable[str], project: str | None) -> Iterator[Ref]:
    found = (feast_ref(text, project) for text in texts)
    return (ref for ref in found if ref is not None)


def _unresolved(rule: str, text: str, *, ambiguous: bool = False, complete: bool = True) -> Claim:
    wanted = Wanted(text, "ambiguous" if ambiguous else "unknown")
    return Claim(rule, (wanted,), complete=complete)


def _narrowed(case: Case, found: Sequence[Wanted]) -> tuple[Wanted, ...]:
    """Return what of `found` the model has as an input, all of it where names do not match.

    What was asked for and not used is left out; a signature adds nothing.
    """
    columns = case.evidence.columns
    inputs = [one for one in found if one.state != "no_input"]
    if columns is None:
        return tuple(inputs)
    used = [
        one for one in inputs if one.ref is not None and not columns.isdisjoint(one.ref.columns)
    ]
    return tuple(used or inputs)


def dataset_match(case: Case) -> Claim | None:
    """Features of tables that are made from a dataset of the run, by the names of its columns."""
    if not case.options.dataset_match or not case.evidence.datasets:
        return None
    signature = case.evidence.columns
    found: dict[str, list[Ref]] = {}
    for dataset in case.evidence.datasets:
        names = dataset.columns if signature is None else dataset.columns & signature
        for table in case.features.with_source(dataset.urn) if names else ():
            for name in names & table.features:
                found.setdefault(name, []).append(table.ref(name))
    return _guessed(case, DATASET_MATCH, found, "matched by the columns of a dataset")


def signature_names(case: Case) -> Claim | None:
    """Features that are named as an input of the model is, `feature` or `table__feature`."""
    if not case.options.signature_names or not case.evidence.columns:
        return None
    found: dict[str, list[Ref]] = {}
    for column in case.evidence.columns:
        table_name, _, feature = column.rpartition("__")
        refs = [table.ref(column) for table in case.features.with_column(column)]
        refs += [
            table.ref(feature)
            for table in (case.features.with_column(feature) if table_name else ())
            if table.table == table_name
        ]
        if refs:
            found[column] = refs
    return _guessed(case, SIGNATURE_NAMES, found, "matched by the names of inputs alone")


def _guessed(case: Case, rule: str, found: dict[str, list[Ref]], why: str) -> Claim | None:
    wanted: list[Wanted] = []
    for column, refs in found.items():
        meant = {one.urn: one for one in case.look_up(refs) if one.state == "held"}
        if len(meant) > 1:
            wanted.append(Wanted(column, "ambiguous"))
        else:
            wanted.extend(meant.values())
    return Claim(rule, tuple(wanted), why) if wanted else None
