"""Where the alias of a registered model was on a date: the evidence, and the answer that it allows.

MLflow keeps no history of aliases. A sighting is evidence of one: at some moment within a window,
by the clock of MLflow's server, an alias was at a version, or at none. Nothing else is claimed.

- An event of the hook on MLflow's server: the window is the call that moved the alias.
- A webhook: MLflow signs it some time after the move, so the window has an end and no beginning.
- A pass that finds other aliases than the catalog has: the window is that of its own listing. With
  it come the aliases that the pass before, which its checkpoint knows, had listed, in its window.
- A version of the group's properties that the catalog keeps: a recipe that wrote other aliases had
  read them by then, so the window has an end, by the catalog's clock, and no beginning. Who only
  carries on what stands there, and who is no recipe, proves nothing.
- A pass that finds the same aliases writes nothing, and leaves no sighting until one differs.
- An event may be lost, and an alias may move away and back between two windows. So no sighting
  proves where the alias was at another moment, and none of a day proves that whole day.
- "Exact" is an answer whose window lies within the day that was asked for: the alias was there at a
  moment of that day. Several versions may have been. Otherwise the answer is the last sighting
  before and the first one behind; what lies between is not known. Before the first one: not known.
- Aliases leave a version that is deleted, and a model's name is its identity, in MLflow as here.

The sightings are a list in a custom property of the model's group, which the merge adds to.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from mlcat_ingest.core.text import json_or_none, utc_second
from mlcat_ingest.metadata.mlflow_keys import ALIASES
from mlcat_ingest.metadata.reserved import ALIAS_LOG

MOST: Final = 300
"""Sightings that a group keeps, the newest ones."""

By = Literal["event", "webhook", "pass", "version"]

_BY: Final[Mapping[By, str]] = {
    "event": "registry event",
    "webhook": "webhook",
    "pass": "pass",
    "version": "kept version",
}

_END_MS: Final = 253_402_300_800_000
"""The year 10,000, which no date has."""

_ANY: Final = ""
"""The alias of a sighting that is of all that a listing did not have."""


class Sighting(NamedTuple):
    """At some moment from `begin_ms` to `end_ms`, both included, the alias was at the version.

    `version` is empty for none, `begin_ms` 0 if unknown; a version that `left` a stage is named.
    """

    alias: str
    version: str
    begin_ms: int
    end_ms: int
    by: By = "pass"
    left: str = ""

    @property
    def holder(self) -> str:
        """Where it was: `version 3`, `no version`, or `not version 2`."""
        where = f"version {self.version}" if self.version else "no version"
        return f"not version {self.left}" if self.left else where

    @property
    def window(self) -> str:
        """When it was there, in UTC, and what says so."""
        begin, end = utc_second(self.begin_ms), utc_second(self.end_ms)
        window = f"between {begin.removesuffix(' UTC')} and {end}"
        if self.by == "event" or not self.begin_ms:
            window = f"at {begin}" if self.begin_ms else f"at {end} or before"
        return f"{window} ({_BY[self.by]})"


def listing(aliases: Mapping[str, str], begin_ms: int, end_ms: int) -> list[Sighting]:
    """Return the sightings of a whole list of aliases, which was read in a window."""
    every = {_ANY: "", **dict(sorted(aliases.items()))}
    return [Sighting(alias, version, begin_ms, end_ms) for alias, version in every.items()]


def encode(sightings: Iterable[Sighting]) -> str:
    """Return the text of the property."""
    return json.dumps([one[:5] for one in sightings], separators=(",", ":"))


def decode(text: object) -> list[Sighting]:
    """Return the sightings in the text of the property; what is none is left out."""
    entries = json_or_none(text)
    types = [str, str, int, int, str]
    return [
        Sighting(*entry)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, list) and [*map(type, entry)] == types
        if entry[4] in _BY and 0 <= entry[2] <= entry[3] < _END_MS
    ]


def versions_in(text: object) -> Mapping[str, str]:
    """Return the version by alias that the property of a group says, none for another text."""
    aliases = json_or_none(text)
    return aliases if isinstance(aliases, dict) else {}


def with_sightings(fresh: Mapping[str, str], stored: Mapping[str, object]) -> Mapping[str, str]:
    """Return fresh custom properties whose sightings are added to the stored ones.

    Those of a pass count only if the aliases differ from the stored ones: what is unchanged is not
    written.
    """
    if ALIAS_LOG not in fresh:
        return fresh
    known = decode(stored.get(ALIAS_LOG))
    has_changed = stored.get(ALIASES) != fresh.get(ALIASES)
    found = [one for one in decode(fresh[ALIAS_LOG]) if one.by != "pass" or has_changed]
    named = {one.alias for one in known} | versions_in(stored.get(ALIASES)).keys()
    united = dict.fromkeys((*known, *_spelled_out(found, named)))
    kept = sorted(united, key=lambda one: (one.end_ms, one.begin_ms))[-MOST:]
    rest = {key: value for key, value in fresh.items() if key != ALIAS_LOG}
    return {**rest, ALIAS_LOG: encode(kept)} if kept and kept != known else rest


def _spelled_out(found: Sequence[Sighting], named: Iterable[str]) -> Iterable[Sighting]:
    """Yield sightings, that of all other aliases as one for each that is named."""
    every = {*named, *(one.alias for one in found)} - {_ANY}
    for one in found:
        if one.alias != _ANY:
            yield one
            continue
        window = one.begin_ms, one.end_ms
        listed = {other.alias for other in found if other[2:] == one[2:]}
        yield from (Sighting(alias, "", *window) for alias in sorted(every - listed))


class AliasEvidence(NamedTuple):
    """The evidence about a span of time, such as a day.

    `within` it there are sightings whose whole windows are in it, `across` those that reach beyond;
    of those without a beginning the ends count.
    `before` is the last one before it, `after` the first one behind. A webhook behind it may be of
    a move within it. `across` also has those before it that may be later than `before`: windows
    overlap, and a webhook may be signed long after the move.
    """

    before: Sighting | None
    within: Sequence[Sighting]
    across: Sequence[Sighting]
    after: Sighting | None

    @property
    def certainty(self) -> Literal["exact", "interval", "not known"]:
        """How much is known of the span; see this module."""
        if self.within:
            return "exact"
        return "interval" if self.before or self.across else "not known"


def answer(sightings: Iterable[Sighting], alias: str, begin_ms: int, end_ms: int) -> AliasEvidence:
    """Return the evidence of where an alias was from `begin_ms` to `end_ms`, both included."""
    ours = sorted(
        (one for one in sightings if one.alias == alias),
        key=lambda one: (one.begin_ms or one.end_ms, one.end_ms),
    )
    before = [one for one in ours if one.end_ms < begin_ms]
    last = max(before, key=lambda one: (one.begin_ms, one.end_ms), default=None)
    rivals = [one for one in before if one is not last and last and one.end_ms >= last.begin_ms]
    after = [one for one in ours if (one.begin_ms or one.end_ms) > end_ms]
    others = [
        one
        for one in ours
        # Of one without a beginning only the end says when it was.
        if begin_ms <= one.end_ms and (one.begin_ms or one.end_ms) <= end_ms
    ]
    within = [one for one in others if one.begin_ms >= begin_ms and one.end_ms <= end_ms]
    return AliasEvidence(
        last,
        within,
        [*rivals, *(one for one in others if one not in within)],
        after[0] if after else None,
    )
