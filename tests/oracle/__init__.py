"""An oracle: what a catalog lacks of an MLflow store, by rules that stand here a second time.

It reads MLflow by its own client and the catalog by GraphQL, and imports nothing of the package
that it judges: a fault of the mapping or of the merge shows as a difference.
"""

from collections.abc import Collection, Iterator

from oracle.catalog import Catalog
from oracle.comparison import Stored, compare
from oracle.mlflow_store import Names, Wanted, wanted_entities

AT_ONCE = 100
"""Entities of one request to the catalog."""


def differences(
    tracking_uri: str,
    catalog_url: str,
    *,
    env: str = "PROD",
    instance: str = "",
    workspace: str = "",
    others: Collection[str] = (),
) -> list[str]:
    """Return a line for each thing that the catalog does not hold as MLflow does.

    `workspace` is the one that the client reads, if it is not the default one. `others` are names
    of parameters, metrics and properties that people added.
    """
    names = Names(env, instance, workspace)
    wanted = wanted_entities(tracking_uri, names)
    catalog = Catalog(catalog_url)
    found = list(_of_wanted(catalog, wanted, others))
    listed = {one.urn for one in wanted}
    live = (urn for urn in catalog.live_entities(names.start) if urn not in listed)
    return [*found, *(f"{urn}: is live, and MLflow does not have it" for urn in live)]


def _of_wanted(catalog: Catalog, wanted: list[Wanted], others: Collection[str]) -> Iterator[str]:
    features: set[str] = set()
    for start in range(0, len(wanted), AT_ONCE):
        batch = wanted[start : start + AT_ONCE]
        stored = catalog.entities([one.urn for one in batch])
        for one in batch:
            entity = stored.get(one.urn, {})
            yield from (f"{one.urn} {text}" for text in compare(one, Stored(entity), others))
            features.update(entity.get("mlModelProperties", {}).get("mlFeatures") or ())
    known = catalog.entities(sorted(features))
    yield from (f"{urn}: is linked, and not there" for urn in sorted(features - known.keys()))
