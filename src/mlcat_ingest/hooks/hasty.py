"""A drain that waits for neither side for long: another try costs nothing."""

import logging
import os
from dataclasses import replace
from typing import Final, TypeVar

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.hooks.drain import drain_into, wanted_by
from mlcat_ingest.hooks.sender import URI_VARIABLE
from mlcat_ingest.hooks.spool import EventSpool
from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import (
    Resolved,
    ResolvedSink,
    ResolvedSource,
    load_resolved,
    resolve,
)

SideT = TypeVar("SideT", ResolvedSource, ResolvedSink)

log = logging.getLogger("mlcat_ingest.hooks")

TIMEOUT_S: Final = 10.0
RETRIES: Final = 1
REST_S: Final = 2.0
"""Between two passes, so that where runs end all the time they come in batches."""


def drain_all(spool: EventSpool, recipe: str, server: str) -> str | None:
    """Drain what is for the recipe, or without one what is of each tracking server.

    Why events are left is returned, None if none are.
    """
    known = os.environ.pop(URI_VARIABLE, "")
    why = None
    for place in [recipe] if recipe else spool.places():
        try:
            if recipe:
                why = _drain_with(load_resolved(recipe), spool, recipe) or why
            else:
                # Of the store that it was started for it knows the credentials.
                uri = known if redact_url(known) == place else place
                resolved = resolve(Recipe.for_tracking_uri(uri, server))
                why = _drain_with(resolved, spool, place) or why
        except MlcatError as error:
            why = str(error)
    return why


def _drain_with(resolved: Resolved, spool: EventSpool, place: str) -> str | None:
    drained = drain_into(hasty(resolved), spool, wanted_by(resolved, place), rest_s=REST_S)
    log.info("%d events of %d runs, %d left", drained.events, drained.runs, drained.left)
    if drained.report is None:
        return None
    if drained.report.failure is None and not drained.report.interrupted:
        # Another try would be refused as well: the next drain takes it along.
        log.error("something was refused, see %s", drained.report.dead_letter_file)
        return None
    return str(drained.report.failure or "interrupted")


def hasty(resolved: Resolved) -> Resolved:
    """Return a recipe with short waits and few attempts."""
    sink = resolved.sink
    return replace(
        resolved,
        sources=tuple(map(_hasty_side, resolved.sources)),
        sink=None if sink is None else _hasty_side(sink),
    )


def _hasty_side(side: SideT) -> SideT:
    if not isinstance(side.config, ConnectionConfig):
        return side
    update = {"timeout_s": TIMEOUT_S, "retries": RETRIES}
    return replace(side, config=side.config.model_copy(update=update))
