"""The answer of where an alias of a registered model was; `metadata.aliases` says what it knows.

A stage of MLflow, such as Production, is answered like an alias, from the tags of the versions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from itertools import groupby, pairwise, zip_longest
from typing import Any, Final

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.core.text import json_or_none, printable
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aliases import AliasEvidence, Sighting, answer, decode, versions_in
from mlcat_ingest.metadata.aspects import (
    GLOBAL_TAGS,
    ML_MODEL_GROUP_PROPERTIES,
    ML_MODEL_PROPERTIES,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.mlflow_keys import ALIASES
from mlcat_ingest.metadata.passport import KeptVersion
from mlcat_ingest.metadata.proposal import Aspect, custom_properties
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.provenance import custom_of
from mlcat_ingest.sources.mlflow.values.records import PropertyKey
from mlcat_ingest.workflows.card import kept_versions
from mlcat_ingest.workflows.names import SearchedCatalog, urn_of
from mlcat_ingest.workflows.plan_render import Line

_STAGES: Final = {
    f"urn:li:tag:mlflow_{name}": name for name in ("production", "staging", "archived")
}
"""The tag of a version in a stage, to the stage."""


def when(
    catalog: SearchedCatalog, alias: str, model: str, begin_ms: int, end_ms: int
) -> AliasEvidence:
    """Return where an alias of the registered model named `model` was in a span of time.

    Raises:
        CatalogRequestError: there is no such model, or nothing is known of the alias at any time.
        RecipeError: several models have the name, or the URN is of something else.
        MlcatError: the catalog cannot be read.

    Cost: one request, and those of `urn_of`; where the record begins later, one for each of the
    newest versions of the group's properties that the catalog keeps. For a stage one for each 200
    versions of the model, and one for each version of the tags of those that may have been in one.
    """
    urn = urn_of(catalog, model, ["registered model"])
    if entity_type_of(urn) != "mlModelGroup":
        raise RecipeError(f"{urn} is no registered model", hint="give its name, such as churn")
    stored = catalog.read_many([urn], [ML_MODEL_GROUP_PROPERTIES]).get(urn)
    if not stored:
        raise CatalogRequestError(f"the catalog has no {urn}", status=HTTPStatus.NOT_FOUND, urn=urn)
    custom = custom_of(urn, stored)
    sightings = decode(custom.get(ALIAS_LOG))
    found = answer(sightings, alias, begin_ms, end_ms)
    if found.certainty == "not known" and isinstance(catalog, CatalogClient):
        kept = kept_versions(catalog, urn, [ML_MODEL_GROUP_PROPERTIES])
        sightings += in_versions(kept.get(ML_MODEL_GROUP_PROPERTIES, ()))
        found = answer(sightings, alias, begin_ms, end_ms)
    known = sorted({one.alias for one in sightings})
    if alias in known:
        return found
    number = versions_in(custom.get(ALIASES)).get(alias)
    stage = "" if number else alias.lower()
    moves, registered = [], custom.get(PropertyKey.REGISTERED_MODEL)
    if registered and stage in _STAGES.values() and isinstance(catalog, CatalogClient):
        moves = [*_of_stages(catalog, urn, registered)]
    if stage in {one.alias for one in moves}:
        return answer(moves, stage, begin_ms, end_ms)
    hint = f"known are {', '.join(known)}" if known else None
    if number:
        hint = f"it is at version {number} now, and is recorded from its next move on"
    what = f"the catalog has no history of alias {alias!r} of {model!r}"
    raise CatalogRequestError(what, status=HTTPStatus.NOT_FOUND, hint=hint)


def _of_stages(catalog: CatalogClient, group: str, model: object) -> Iterator[Sighting]:
    """Yield the sightings of stages in the tags of the versions of a model, removed ones too.

    Several versions can be in one stage: one that leaves it proves nothing of the others. A group
    that people make can have the versions of other models.
    """
    read = [GLOBAL_TAGS, ML_MODEL_PROPERTIES, VERSION_PROPERTIES]
    for page in catalog.search.members(group):
        for urn, stored in catalog.read_many(page, read).items():
            version, tags = stored.get(VERSION_PROPERTIES), stored.get(GLOBAL_TAGS)
            number = None if version is None else version.value["version"].get("versionTag")
            is_other = custom_of(urn, stored).get(PropertyKey.REGISTERED_MODEL) != model
            if number is None or tags is None or is_other:
                continue
            holder = partial(_stages_in, number)
            if tags.version == "1" and not holder(tags.value):
                continue  # has never been in a stage
            kept = kept_versions(catalog, urn, [GLOBAL_TAGS]).get(GLOBAL_TAGS, ())
            for one in in_versions(kept, holder):
                yield one if one.version else one._replace(left=number)


def _stages_in(number: str, tags: Aspect) -> Mapping[str, str]:
    """Return the stage of a version by its tags, with its number."""
    named = [_STAGES.get(entry.get("tag")) for entry in tags.get("tags") or ()]
    return {stage: number for stage in named if stage}


def _aliases_in(properties: Aspect) -> Mapping[str, str] | None:
    """Return the aliases in a group's properties, as the model's recipe writes them; else None."""
    custom = custom_properties(properties)
    aliases = json_or_none(custom.get(ALIASES, "{}"))
    return aliases if isinstance(aliases, dict) and PropertyKey.REGISTERED_MODEL in custom else None


def in_versions(
    kept: Sequence[KeptVersion],
    holders_in: Callable[[Aspect], Mapping[str, str] | None] = _aliases_in,
) -> Iterator[Sighting]:
    """Yield the sightings in the versions of an aspect, the newest first, by what holds an alias.

    There is one for each alias that a recipe wrote at another version than it had before. The first
    of versions whose older ones are not kept has none: it may carry on what anybody wrote.
    """
    for one, older in zip_longest(kept, kept[1:]):
        has_older = one.number == 1 if older is None else one.number == older.number + 1
        if not has_older or one.written_ms is None or not one.is_by_recipe:
            continue
        now = holders_in(one.value)
        before = {} if older is None else holders_in(older.value)
        if now is None or before is None:
            continue  # such as one that was cut: it says of no alias that it is gone
        for alias in sorted(now.keys() | before.keys()):
            if now.get(alias) != before.get(alias):
                yield Sighting(alias, now.get(alias, ""), 0, one.written_ms, "version")


def when_lines(found: AliasEvidence, what: str) -> Iterator[Line]:
    """Yield the verdict on `what` was asked for, and the evidence in the order of time."""
    before, after = ([] if one is None else [one] for one in (found.before, found.after))
    if found.within:
        held = [next(run) for _, run in groupby(found.within, key=lambda one: one.holder)]
        # The order of windows that overlap is not known.
        is_ordered = all(one.end_ms < other.begin_ms for one, other in pairwise(held))
        holders = [one.holder for one in held]
        text = ", then ".join(holders) if is_ordered else " and ".join(dict.fromkeys(holders))
    else:
        # An event says when the alias came to a version, others that it had come by then.
        held = [*before, *found.across, *(one for one in after if one.by != "event")]
        text = " or ".join(dict.fromkeys(one.holder for one in held))
    verdict = {"exact": f"exact, {text}", "interval": f"interval, nearest proof: {text}"}
    yield Line(printable(f"{what}: {verdict.get(found.certainty, found.certainty)}"))
    rows = {"before": before, "around": found.across, "within": found.within, "after": after}
    for where, sightings in rows.items():
        for one in sightings:
            yield Line(printable(f"  {where}  {one.holder:<12}  {one.window}"))


def when_data(found: AliasEvidence) -> dict[str, Any]:
    """Return the answer as JSON data; times are epoch milliseconds, 0 for an unknown beginning."""
    before, after = (one and one._asdict() for one in (found.before, found.after))
    within, across = ([one._asdict() for one in some] for some in (found.within, found.across))
    data = {"before": before, "across": across, "within": within, "after": after}
    return {"certainty": found.certainty, **data}
