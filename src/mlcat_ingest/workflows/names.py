"""Names that people use in place of URNs: the one entity of a catalog that a text means.

A text means a URN, or the live model or group of which it is the name: that of its properties, that
in its URN, or a run's id. `churn@3` and `churn:champion` mean the version of `churn` with that
number or alias. Names are compared whole, with their case. Several entities are never chosen from.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final, Literal, Protocol, get_args

from mlcat_ingest.client.base import Reads, Searches, StoredEntity, each_type
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aspects import (
    ML_MODEL_GROUP_PROPERTIES,
    ML_MODEL_PROPERTIES,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.labels import label_of, name_in, with_label
from mlcat_ingest.metadata.mlflow_keys import RUN_ID
from mlcat_ingest.metadata.proposal import Aspect, custom_properties
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.provenance import stored_properties
from mlcat_ingest.recipe.loader import nearest
from mlcat_ingest.sources.mlflow.values.records import PropertyKey

_MOST: Final = 20
"""Entities of one name that are listed, and parts of a name that are looked for."""

_VERSION: Final = re.compile(r"(.+)[:@]([^:@]+)", re.DOTALL)
_ASPECTS: Final = {
    "mlModel": (ML_MODEL_PROPERTIES, VERSION_PROPERTIES),
    "mlModelGroup": (ML_MODEL_GROUP_PROPERTIES,),
}
"""The types of entities that have names, and the aspects that say them."""

Kind = Literal["registered model", "version", "experiment", "run", "model"]
"""The kinds of entities with names; `model` is one that is neither a version nor an MLflow run."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class SearchedCatalog(Reads, Protocol):
    """A catalog that is read and searched."""

    @property
    def search(self) -> Searches:
        """The search of the catalog."""


def urn_of(catalog: SearchedCatalog, text: str, kinds: Sequence[Kind] = KINDS) -> str:
    """Return the URN that `text` is, or that of the one entity of `kinds` that it names.

    Raises:
        InvalidUrnError: `text` begins as a URN and is none.
        CatalogRequestError: nothing has the name; the error has the nearest one.
        RecipeError: several entities have it; the error lists them.
        MlcatError: the catalog cannot be searched, or not be read.

    Cost: none for a URN; else a search, and a read of what it found, a request for each type. Where
    that is nothing, as much for up to 1,000 groups.
    """
    if text.startswith(PREFIX):
        entity_type_of(text)
        return text
    named = (found for found in _named(catalog, text) if found[1] in kinds)
    found = dict(islice(((urn, f"  {line}, {kind}") for urn, kind, line in named), _MOST + 1))
    if not found:
        raise _nothing(catalog, text, kinds)
    if len(found) == 1:
        return next(iter(found))
    count = f"more than {_MOST}" if len(found) > _MOST else len(found)
    lines = [f"{count} entities are named {text!r}; give one of the URNs", *found.values()]
    raise RecipeError("\n".join(lines[: _MOST + 1]))


def _named(catalog: SearchedCatalog, text: str) -> Iterator[tuple[str, Kind, str]]:
    """Yield URN, kind and line of each entity that has the name."""
    model, version = _split(text)
    for page in catalog.search.named(_tails(text), _tails(model), version):
        for urn, stored in _read(catalog, page).items():
            properties = stored_properties(urn, stored) or NOTHING
            aspect = stored.get(VERSION_PROPERTIES)
            of = NOTHING if aspect is None else aspect.value
            custom = custom_properties(properties)
            kind = _kind(urn, custom, is_version="version" in of)
            names = {properties.get("name"), name_in(urn)}
            if kind == "run":
                names.add(custom.get(RUN_ID))
            is_meant = version in _tags(of) and model in _models(properties)
            if text in names or (is_meant and version):
                yield urn, kind, with_label(urn, label_of(urn, properties))


def _split(text: str) -> tuple[str, str]:
    """Return the name of a registered model, and the number or alias behind it, or empty texts."""
    match = _VERSION.fullmatch(text)
    return ("", "") if match is None else (match[1], match[2])


def _tails(name: str) -> list[str]:
    """Return a name, and the names that it may hold behind what a URN adds: `eu.registered:`."""
    starts = (match.end() for match in islice(re.finditer("[.:]", name), _MOST))
    return [name, *(name[start:] for start in starts if start < len(name))]


def _read(catalog: Reads, urns: Sequence[str]) -> Mapping[str, StoredEntity]:
    return each_type(catalog.read_many, urns, lambda kind: _ASPECTS.get(kind, ()))


def _kind(urn: str, custom: Aspect, *, is_version: bool) -> Kind:
    registered = PropertyKey.REGISTERED_MODEL in custom
    if entity_type_of(urn) == "mlModelGroup":
        is_experiment = PropertyKey.EXPERIMENT_ID in custom and not registered
        return "experiment" if is_experiment else "registered model"
    if registered or is_version:
        return "version"
    return "run" if RUN_ID in custom else "model"


def _tags(of: Aspect) -> list[str]:
    """Return the number of a version, and its aliases."""
    tags = [of.get("version") or NOTHING, *(of.get("aliases") or ())]
    return [tag.get("versionTag") for tag in tags]


def _models(properties: Aspect) -> set[object]:
    registered = custom_properties(properties).get(PropertyKey.REGISTERED_MODEL)
    return {registered, *map(name_in, properties.get("groups") or ())}


def _nothing(catalog: SearchedCatalog, text: str, kinds: Sequence[Kind]) -> CatalogRequestError:
    """Return the error that nothing has the name, with the nearest name of a group."""
    asked = ", ".join(kinds[:-1]) + f" or {kinds[-1]}" if len(kinds) > 1 else kinds[0]
    groups = next(catalog.search.entities_of_source("mlModelGroup", None).pages, [])
    known = {
        str(properties.get("name")): _kind(urn, custom_properties(properties), is_version=False)
        for urn, stored in _read(catalog, groups).items()
        for properties in [stored_properties(urn, stored) or NOTHING]
    }
    model, version = _split(text) if "version" in kinds else ("", "")
    if known.get(model) == "registered model":
        what = f"the catalog has no version or alias {version!r} of {model!r}"
        return CatalogRequestError(what, status=HTTPStatus.NOT_FOUND)
    begin = _split(text)[0]
    registered = [name for name, kind in known.items() if kind == "registered model"]
    has_groups = "experiment" in kinds and not begin
    meant = nearest(begin or text, known if has_groups else registered)
    behind = text[len(model) :] if model else ""
    hint = f"did you mean {meant}{behind}?" if meant else None
    if text in known:
        hint = f"it is the name of a group, of kind {known[text]}"
        if "version" in kinds:
            is_registered = known[text] == "registered model"
            one = f"a version, such as {text}@1" if is_registered else "a run of it"
            hint = f"{hint}; name {one}"
    what = f"the catalog has no {asked} named {text!r}"
    return CatalogRequestError(what, status=HTTPStatus.NOT_FOUND, hint=hint)
