"""The rules that link models to features, and the check of the candidate in the catalog.

Evidence is what a run, and the models made from it, say about the features they were made with:
frozen values, put together by a source's mapping without I/O; the rules look at nothing else. Each
rule looks at one kind. The first that names any features gives the candidate.

References are as runs spell them and as files of their models list them: `feature_spec.yaml` and
`feast_features.json`. These are data of somebody else: nothing in them is executed, and one that
cannot be read is an error of its own.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.links.index import (
    FeatureMatch,
    Features,
    IndexedTable,
    Ref,
)
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.reserved import FEATURES_TAG
from mlcat_ingest.metadata.urn import PREFIX

FEAST_REFS: Final = "feast.feature_refs"
FEAST_SERVICE: Final = "feast.feature_service"
FEAST_OPERATION: Final = "feast.operation"
FEAST_MODEL_NAME: Final = "feast.model_name"
FEAST_FILE: Final = "feast_features.json"
"""The file that Feast logs beside its tags: all features, where a tag holds too few characters."""

_PROJECT: Final = "feast.project"
_COUNT: Final = "feast.feature_count"
_RETRIEVAL: Final = "feast.retrieval_type"
_MORE: Final = "..."

_VERSION: Final = re.compile(r"@(?:v\d+|latest)?$", re.IGNORECASE)
_FEATURE_URN: Final = f"{PREFIX}mlFeature:("


@dataclass(frozen=True, slots=True)
class FeastTags:
    """The tags of Feast on a run, from the last time that it was asked for features.

    `refs` are the references that are whole. They are not all of them if `is_cut`: a tag holds
    4,990 characters, a parameter of older versions less.
    """

    project: str | None = None
    refs: tuple[str, ...] = ()
    is_cut: bool = False
    count: int | None = None
    service: str | None = None
    retrieval: str | None = None

    @property
    def is_training(self) -> bool:
        """True if the features they are about were asked for to train with."""
        return self.retrieval in {None, "historical"}


def feast_tags(tags: Mapping[str, str], params: Mapping[str, str]) -> FeastTags | None:
    """Return Feast's tags on a run, from its tags or else from its parameters.

    A text that ends in `...` was cut there. A text with fewer references than were counted was cut,
    too, and its last reference may be incomplete.
    """
    values = tags if FEAST_REFS in tags or FEAST_SERVICE in tags else params
    if FEAST_REFS not in values and FEAST_SERVICE not in values:
        return None
    text = values.get(FEAST_REFS, "")
    listed = [part for part in (part.strip() for part in text.split(",")) if part]
    count = _number(values.get(_COUNT))
    is_cut = text.endswith(_MORE) or (bool(listed) and count is not None and len(listed) < count)
    result = FeastTags(
        project=values.get(_PROJECT) or tags.get(_PROJECT) or None,
        refs=tuple(listed[:-1] if is_cut else listed),
        is_cut=is_cut,
        count=count,
        service=values.get(FEAST_SERVICE) or None,
        retrieval=values.get(_RETRIEVAL) or None,
    )
    return result if result.refs or result.is_cut or result.service else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class UsedDataset:
    """A dataset that was used for training, and its columns as far as they were logged."""

    urn: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of the features of one model.

    `declared` is the text of the tag `mlcat.features`, `feature_specs` and `features_file` are
    those of the files `feature_spec.yaml` and `feast_features.json`. `columns` are the inputs of
    the model's signature; None where it has none. `tables` are those that the recipe makes of the
    signature itself.
    """

    declared: str | None = None
    feature_specs: tuple[str, ...] = ()
    feast: FeastTags | None = None
    features_file: str | None = None
    datasets: tuple[UsedDataset, ...] = ()
    columns: frozenset[str] | None = None
    tables: tuple[IndexedTable, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The settings of a recipe for links.

    `instance` and `namespace_prefix` are those of tables that no feature source of the recipe
    reads; `project` is that of references which name none.
    """

    instance: str | None = None
    namespace_prefix: str | None = None
    project: str | None = None
    dangling: bool = False
    dataset_match: bool = False
    signature_names: bool = False
    from_signature: bool = False

    @property
    def elsewhere(self) -> Naming:
        """How features of tables are named that no feature source of the recipe reads.

        Raises:
            ValueError: instance and prefix cannot be part of names.
        """
        return _elsewhere(self.instance, self.namespace_prefix)


@lru_cache(maxsize=16)
def _elsewhere(instance: str | None, prefix: str | None) -> Naming:
    return Naming("feast", instance=instance, workspace=prefix)


@dataclass(frozen=True, slots=True)
class UnlinkedModel(Entity):
    """A model before the look-up of its features, with the `evidence` and `options` for it.

    Its aspects leave `mlFeatures` out: if no features are found, the stored ones stay.
    """

    evidence: Evidence = field(default_factory=Evidence)
    options: LinkOptions = field(default_factory=LinkOptions)


DECLARED: Final = FEATURES_TAG
FEATURE_SPEC: Final = "feature_spec.yaml"
DATASET_MATCH: Final = "dataset_match"
SIGNATURE_NAMES: Final = "signature_names"
FROM_SIGNATURE: Final = "from_signature"


class Candidate(NamedTuple):
    """The features that a run names, as one rule finds them.

    `approximate` is the reason why the run may have used others. If it is not `complete`, features
    may be missing in it.
    """

    rule: str
    matches: tuple[FeatureMatch, ...]
    approximate: str = ""
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """One model: its evidence, and where to look it up; `problems` lists unreadable files."""

    evidence: Evidence
    features: Features
    options: LinkOptions
    problems: list[str] = field(default_factory=list)

    def look_up(self, refs: Iterable[Ref], feature_set: str | None = None) -> list[FeatureMatch]:
        """Return what each of `refs` means."""
        elsewhere = self.options.elsewhere
        return [self.features.look_up(ref, elsewhere, feature_set) for ref in refs]

    def project(self, feast: FeastTags | None) -> str | None:
        """Return the project of Feast's tags, None if it is not known."""
        named = feast.project if feast is not None else None
        return named or self.options.project or self.features.only_namespace()


Rule = Callable[[Case], Candidate | None]
"""Returns None if the run has no evidence for the rule."""


def _feast_ref(text: str, project: str | None) -> Ref | None:
    """Return the reference that `view[@vN]:feature` spells; None for other texts."""
    spelled, _, feature = text.strip().partition(":")
    view = _VERSION.sub("", spelled)
    if not (view and feature):
        return None
    return Ref(view, feature, project, () if spelled == view else (spelled,))


def _entries(text: str) -> Iterator[str]:
    """Yield the entries of a list, split at commas and line ends that are in no parentheses."""
    depth = start = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "\n" or (character == "," and depth <= 0):
            depth = 0
            yield from filter(None, [text[start:at].strip()])
            start = at + 1
    yield from filter(None, [text[start:].strip()])


class _UnreadableFileError(ValueError):
    """The file is not what its name promises."""


def _spec_features(text: str) -> list[Ref]:
    """Return the features in a `feature_spec.yaml` that are inputs of the model.

    Training data that is in no feature table, and functions on demand, are none.

    Raises:
        _UnreadableFileError: it is no such file.

    Source: `feature_spec.yaml` of Databricks' feature engineering client; `input_columns` lists
    one mapping a column, `{<column>: {source, table_name, feature_name, include, …}}`.
    """
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _UnreadableFileError("not YAML") from error
    columns = content.get("input_columns") if isinstance(content, Mapping) else None
    if not isinstance(columns, list):
        raise _UnreadableFileError("the list `input_columns` is missing")
    named = (item for one in columns if isinstance(one, Mapping) for item in one.items())
    refs: list[Ref] = []
    for name, facts in named:
        if isinstance(facts, Mapping) and facts.get("source") == "feature_store":
            table, feature = facts.get("table_name"), facts.get("feature_name", name)
            is_ref = isinstance(table, str) and isinstance(feature, str) and table and feature
            if is_ref and facts.get("include") is not False:
                refs.append(Ref(str(table), str(feature)))
    return refs


def _listed_features(text: str) -> list[str]:
    """Return the references in a `feast_features.json`, as they are spelled there.

    Raises:
        _UnreadableFileError: it is no list of texts.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _UnreadableFileError("not JSON") from error
    if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
        raise _UnreadableFileError("not a list of references")
    return content


def _declared_features(case: Case) -> Candidate | None:
    """Features that people named, by the tag `mlcat.features`."""
    matches: list[FeatureMatch] = []
    for text in _entries(case.evidence.declared or ""):
        table, _, feature = text.partition(":")
        if text.startswith(_FEATURE_URN) and text.endswith(")"):
            matches.append(case.features.look_up_urn(text))
        elif not (table and feature) or text.startswith("urn:"):
            matches.append(FeatureMatch(text, "unknown"))
        else:
            matches += case.look_up([Ref(table, feature)])
    return Candidate(DECLARED, tuple(matches)) if matches else None


def _feature_spec(case: Case) -> Candidate | None:
    """Features that Databricks packaged with the model, which looks them up itself."""
    refs: list[Ref] = []
    for text in case.evidence.feature_specs:
        try:
            refs += _spec_features(text)
        except _UnreadableFileError as error:
            case.problems.append(f"{FEATURE_SPEC}: {error}")
    return Candidate(FEATURE_SPEC, tuple(case.look_up(refs))) if refs else None


def _feast_refs(case: Case) -> Candidate | None:
    """The references that Feast wrote when features were last asked for, if they are whole."""
    feast = _training(case)
    if feast is None or feast.is_cut or not feast.refs:
        return None
    return _feast_candidate(case, feast, FEAST_REFS, feast.refs)


def _feast_file(case: Case) -> Candidate | None:
    """The file that Feast logs beside a model, if it holds as many references as were counted."""
    text, training = case.evidence.features_file, _training(case)
    if text is None:
        return None
    try:
        listed = _listed_features(text)
    except _UnreadableFileError as error:
        case.problems.append(f"{FEAST_FILE}: {error}")
        return None
    expected = None if training is None else training.count
    if not listed or expected not in {None, len(listed)} or listed[-1].endswith("..."):
        return None  # it is made from the tag, and so cut where the tag is
    return _feast_candidate(case, case.evidence.feast or FeastTags(), FEAST_FILE, listed)


def _feast_service(case: Case) -> Candidate | None:
    """The features of the service today, where the references are missing or cut.

    Feast guesses the service: it takes the smallest that has all features asked for. So one with
    more features than were asked for, or without one of those that are known, is not the one.
    """
    feast = _training(case)
    if feast is None or feast.service is None or (feast.refs and not feast.is_cut):
        return None
    project = case.project(feast)
    if project is None:
        return Candidate(FEAST_SERVICE, (FeatureMatch(feast.service, "ambiguous"),))
    sets, name = case.features.sets(project, feast.service), f"{project}.{feast.service}"
    if len(sets) != 1:
        match = FeatureMatch(name, "ambiguous" if sets else "unknown")
        complete = bool(sets) or case.features.knows_all_of(project)
        return None if feast.is_cut else Candidate(FEAST_SERVICE, (match,), complete=complete)
    refs = list(sets[0].refs())
    if feast.is_cut and not _covers(case, feast, refs):
        return None
    why = "its references are truncated" if feast.is_cut else "it has no references"
    text = f"{why}; the references are those of the service {feast.service} today"
    return Candidate(FEAST_SERVICE, _narrow_to_inputs(case, case.look_up(refs)), text)


def _covers(case: Case, feast: FeastTags, refs: Sequence[Ref]) -> bool:
    urns = {match.urn for match in case.look_up(refs)}
    asked = case.look_up(_refs(feast.refs, case.project(feast)), feast.service)
    return {ref.urn for ref in asked} <= urns and feast.count in {None, len(refs)}


def _feast_refs_cut(case: Case) -> Candidate | None:
    """The references that were not cut off, if the others are not known."""
    feast = _training(case)
    if feast is None or not feast.is_cut:
        return None
    of = "" if feast.count is None else f" of {feast.count}"
    text = f"its references are truncated: {len(feast.refs)}{of} are known"
    candidate = _feast_candidate(case, feast, FEAST_REFS, feast.refs)
    return candidate._replace(approximate=text)


def _training(case: Case) -> FeastTags | None:
    """Return Feast's tags if the features they are about were asked for to train with."""
    feast = case.evidence.feast
    return feast if feast is not None and feast.is_training else None


def _feast_candidate(case: Case, feast: FeastTags, rule: str, texts: Sequence[str]) -> Candidate:
    project = case.project(feast)
    if project is None:
        # Views of one name may be in several projects, and none is named.
        return Candidate(rule, tuple(FeatureMatch(text, "ambiguous") for text in texts))
    unreadable = (text for text in texts if _feast_ref(text, project) is None)
    unknown = (FeatureMatch(text, "unknown") for text in unreadable)
    matches = case.look_up(_refs(texts, project), feast.service)
    return Candidate(rule, (*_narrow_to_inputs(case, matches), *unknown))


def _refs(texts: Iterable[str], project: str | None) -> Iterator[Ref]:
    refs = (_feast_ref(text, project) for text in texts)
    return (ref for ref in refs if ref is not None)


def _narrow_to_inputs(case: Case, matches: Sequence[FeatureMatch]) -> tuple[FeatureMatch, ...]:
    """Return those of `found` that the model has as inputs, all of them where names do not match.

    Features that were asked for and not used are left out; a signature adds none.
    """
    columns = case.evidence.columns
    inputs = [match for match in matches if match.state != "no_input"]
    if columns is None:
        return tuple(inputs)
    used = [match for match in inputs if match.ref and not columns.isdisjoint(match.ref.columns)]
    return tuple(used or inputs)


def _from_signature(case: Case) -> Candidate | None:
    """Features that the recipe makes of the columns of the model's own signature."""
    matches: list[FeatureMatch] = []
    for table in case.evidence.tables:
        for column in table.features:
            with suppress(InvalidUrnError):
                matches.append(FeatureMatch(column, "made", table.urn(column)))
    return Candidate(FROM_SIGNATURE, tuple(matches)) if matches else None


def _dataset_match(case: Case) -> Candidate | None:
    """Features of tables that are made from a dataset of the run, by the names of its columns."""
    if not case.options.dataset_match or not case.evidence.datasets:
        return None
    signature = case.evidence.columns
    refs: dict[str, list[Ref]] = {}
    for dataset in case.evidence.datasets:
        names = dataset.columns if signature is None else dataset.columns & signature
        for table in case.features.by_source.get(dataset.urn, ()) if names else ():
            for name in names & table.features:
                refs.setdefault(name, []).append(table.ref(name))
    return _guess(case, DATASET_MATCH, refs, "matched by the columns of a dataset")


def _signature_names(case: Case) -> Candidate | None:
    """Features that are named as an input of the model is, `feature` or `table__feature`."""
    if not case.options.signature_names or not case.evidence.columns:
        return None
    refs_by_column: dict[str, list[Ref]] = {}
    for column in case.evidence.columns:
        table_name, _, feature = column.rpartition("__")
        refs = [table.ref(column) for table in case.features.by_column.get(column, ())]
        refs += [
            table.ref(feature)
            for table in (case.features.by_column.get(feature, ()) if table_name else ())
            if table.table == table_name
        ]
        if refs:
            refs_by_column[column] = refs
    return _guess(case, SIGNATURE_NAMES, refs_by_column, "matched by the names of inputs alone")


def _guess(
    case: Case, rule: str, refs_by_column: dict[str, list[Ref]], why: str
) -> Candidate | None:
    matches: list[FeatureMatch] = []
    for column, refs in refs_by_column.items():
        meant = {match.urn: match for match in case.look_up(refs) if match.state == "held"}
        if len(meant) > 1:
            matches.append(FeatureMatch(column, "ambiguous"))
        else:
            matches.extend(meant.values())
    return Candidate(rule, tuple(matches), why) if matches else None


RULES: Final[tuple[Rule, ...]] = (
    _declared_features,
    _feature_spec,
    _feast_refs,
    _feast_file,
    _feast_service,
    _feast_refs_cut,
    _from_signature,
    _dataset_match,
    _signature_names,
)
"""In the order of trust: first the features that people named, last those that are guessed."""

NO_CANDIDATE: Final = Candidate("", ())

Exists = Callable[[str], bool | None]
"""Returns True if the catalog has a feature; None where it could not be asked."""


def resolve(
    evidence: Evidence, features: Features, options: LinkOptions
) -> tuple[Candidate, list[str]]:
    """Return the candidate of the first rule that has one, and the problems with the evidence.

    It is `NO_CANDIDATE` where no rule has one.
    """
    case = Case(evidence, features, options)
    candidates = (rule(case) for rule in RULES)
    first = next((candidate for candidate in candidates if candidate is not None), NO_CANDIDATE)
    return first, case.problems


@dataclass(frozen=True, slots=True)
class Links:
    """The features of one model: `urns`, sorted, each once.

    `unknown` and `ambiguous` are references without a link, as they were spelled. They are not
    `complete` if something could not be looked up; then the stored links must stay.
    """

    rule: str = ""
    urns: tuple[str, ...] = ()
    approximate: str = ""
    unknown: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    complete: bool = True


def verify(candidate: Candidate, exists: Exists, *, dangling: bool) -> Links:
    """Return the links of `candidate` to features that exist, and to others only if `dangling`."""
    there: set[str] = set()
    unknown: list[FeatureMatch] = []
    complete = candidate.complete
    for match in candidate.matches:
        answer: bool | None = match.state == "made"
        if match.urn is not None and match.state in {"held", "to_ask"}:
            answer = exists(match.urn)
        if answer is None and match.state == "to_ask":
            complete = False
        elif match.urn is None or answer is False:
            unknown.append(match)
        else:
            there.add(match.urn)
    lacking = [match for match in unknown if match.state not in {"ambiguous", "no_input"}]
    if dangling:
        there.update(match.urn for match in lacking if match.urn is not None)
        lacking = [match for match in lacking if match.urn is None]
    return Links(
        rule=candidate.rule,
        urns=tuple(sorted(there)),
        approximate=candidate.approximate,
        unknown=_texts(lacking),
        ambiguous=_texts(match for match in unknown if match.state == "ambiguous"),
        complete=complete,
    )


def _texts(matches: Iterable[FeatureMatch]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(match.text for match in matches))
