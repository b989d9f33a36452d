"""The answer of where an alias of a registered model was; `metadata.aliases` says what it knows."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aliases import AliasEvidence, answer, decode, versions_in
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.mlflow_keys import ALIASES
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.provenance import custom_properties, stored_properties
from mlcat_ingest.workflows.names import SearchedCatalog, urn_of
from mlcat_ingest.workflows.plan_render import Line


def when(
    catalog: SearchedCatalog, alias: str, model: str, begin_ms: int, end_ms: int
) -> AliasEvidence:
    """Return where an alias of the registered model named `model` was in a span of time.

    Raises:
        CatalogRequestError: there is no such model, or nothing is known of the alias at any time.
        RecipeError: several models have the name, or the URN is of something else.
        MlcatError: the catalog cannot be read.

    Cost: one request, and those of `urn_of`.
    """
    urn = urn_of(catalog, model, ["registered model"])
    if entity_type_of(urn) != "mlModelGroup":
        raise RecipeError(f"{urn} is no registered model", hint="give its name, such as churn")
    stored = catalog.read_many([urn], [ML_MODEL_GROUP_PROPERTIES]).get(urn)
    if not stored:
        raise CatalogRequestError(f"the catalog has no {urn}", status=404, urn=urn)
    custom = custom_properties(stored_properties(urn, stored) or NOTHING)
    sightings = decode(custom.get(ALIAS_LOG))
    known = sorted({one.alias for one in sightings})
    if alias not in known:
        hint = f"known are {', '.join(known)}" if known else None
        if number := versions_in(custom.get(ALIASES)).get(alias):
            hint = f"it is at version {number} now, and is recorded from its next move on"
        what = f"the catalog has no history of alias {alias!r} of {model!r}"
        raise CatalogRequestError(what, status=404, hint=hint)
    return answer(sightings, alias, begin_ms, end_ms)


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
    holders_text = f", {text}" if found.certainty != "not known" else ""
    yield Line(printable(f"{what}: {found.certainty}{holders_text}"))
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
