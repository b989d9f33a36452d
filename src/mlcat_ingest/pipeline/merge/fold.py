"""One entity out of two that say something of the same URN, before any of it is merged."""

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.aspects import merge_aspect
from mlcat_ingest.pipeline.merge.rules import UNION
from mlcat_ingest.pipeline.merge.sources import custom_properties, with_all_sources


def fold(earlier: Entity, later: Entity) -> Entity:
    """Return what holds once `earlier` and then `later` were said of the same URN.

    That is what merging one after the other comes to: the later word on a field stands.

    Raises:
        RecipeError: the two come from different servers of one type.
    """
    if later.only_if_absent:
        return earlier
    if earlier.only_if_absent:
        return later
    aspects = dict(earlier.aspects)
    for name, fresh in later.aspects.items():
        known = aspects.get(name, {})
        if known and name in later.adds_only:
            added = merge_aspect(name, known, fresh, UNION).value
            aspects[name] = fresh if added is None else added
        else:
            said = with_all_sources(earlier.urn, fresh, custom_properties(known))
            aspects[name] = {**known, **said}
    unread = {one for entity in (earlier, later) for one in entity.adds_only}
    read = (entity.aspects.keys() - entity.adds_only for entity in (earlier, later))
    return Entity(
        earlier.urn,
        aspects,
        notes=(*earlier.notes, *later.notes),
        adds_only=frozenset(unread.difference(*read)),
    )
