"""Trials of a service's search and of its GraphQL; see `probe_trials`."""

from typing import Final

from mlcat_ingest.client.behaviour import ProbeAnswer
from mlcat_ingest.client.probe_entities import (
    PROBE_ASPECT,
    ProbeEntities,
    group_urn,
    name_of,
    probe_name,
    probe_properties,
    probe_urn,
    version_of,
)
from mlcat_ingest.client.probe_trials import Observation, outcome_of_write
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import CatalogRequestError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import SOURCE_KEY

_LONG_VALUE: Final = 5_000
_OTHER_KEY: Final = "mlcat-ingest-check"
_MAX_START: Final = 10_000
_LOOKUPS: Final = 10
"""Searches in the largest query of a run, which looks for datasets."""


def label_twice(probe: ProbeEntities) -> Observation:
    """Write a second version with a label that its set has already."""
    version_set, first, second = probe.versions
    probe.require(lambda: probe.find_live(name_of(version_set)) == {first, second})
    return outcome_of_write(probe, version_of(probe_urn(), version_set, "1"))


def older_versions_in_searches(probe: ProbeEntities) -> Observation:
    """Search for two versions, with the flag for all versions and without."""
    version_set, first, second = probe.versions
    probe.require(lambda: probe.find_live(name_of(version_set)) == {first, second})
    found = probe.find_without_flags(SOURCE_KEY, name_of(version_set))
    is_latest = found == {second}
    return Observation(
        ProbeAnswer.LATEST_UNLESS_ASKED if is_latest else ProbeAnswer.ALL_VERSIONS,
        f"{plural(len(found), 'version')} without the flag, 2 with it",
    )


def long_property(probe: ProbeEntities) -> Observation:
    """Search for a custom property whose value is longer than the index takes."""
    urn, value = probe_urn(), f"{probe_name()}{'x' * _LONG_VALUE}"
    properties = probe_properties("1", name_of(urn))
    properties["customProperties"][_OTHER_KEY] = value
    probe.write(Proposal(urn, PROBE_ASPECT, properties))
    probe.require(lambda: probe.find_live(name_of(urn)) == {urn})
    is_found = probe.find_without_flags(_OTHER_KEY, value) == {urn}
    return Observation(ProbeAnswer.FOUND if is_found else ProbeAnswer.NOT_FOUND)


_WINDOW: Final = f"""
query window($urn: String!) {{
  mlModelGroup(urn: $urn) {{
    relationships(
      input: {{types: ["MemberOf"], direction: INCOMING, start: {_MAX_START}, count: 1}}
    ) {{ total }}
  }}
}}
"""


def relationship_window(probe: ProbeEntities) -> Observation:
    """Ask for the relationships of a group behind the end of the index's pages."""
    group = _group(probe)
    try:
        probe.client.graphql(_WINDOW, {"urn": group})
    except CatalogRequestError as error:
        return Observation(ProbeAnswer.REFUSED, error.message)
    return Observation(ProbeAnswer.TAKEN)


def relationship_scroll(probe: ProbeEntities) -> Observation:
    """Scroll through the members of a group."""
    group, model = _group(probe), probe_urn()
    if probe.client.incoming(group, "MemberOf", None) is None:
        return Observation(ProbeAnswer.MISSING)
    probe.write(Proposal(model, PROBE_ASPECT, probe_properties("1", groups=[group])))

    def is_member() -> bool:
        page = probe.client.incoming(group, "MemberOf", None) or {}
        return any(edge["source"]["urn"] == model for edge in page.get("results", ()))

    waited_s = probe.wait_until(is_member)
    if waited_s is None:
        return Observation(ProbeAnswer.NOT_FOUND, f"the edge, within {probe.patience_s:g} s")
    return Observation(ProbeAnswer.FOUND, f"the edge, after {waited_s:.1f} s")


def _group(probe: ProbeEntities) -> str:
    urn = group_urn()
    probe.write(Proposal(urn, ML_MODEL_GROUP_PROPERTIES, probe_properties("1")))
    return urn


def search_lag(probe: ProbeEntities) -> Observation:
    """Write a model, and search until it is found."""
    urn = probe_urn()
    probe.write(Proposal(urn, PROBE_ASPECT, probe_properties("1", name_of(urn))))
    waited_s = probe.wait_until(lambda: probe.find_live(name_of(urn)) == {urn})
    if waited_s is None:
        return Observation(ProbeAnswer.NOT_FOUND, f"within {probe.patience_s:g} s")
    return Observation(ProbeAnswer.FOUND, f"after {waited_s:.1f} s")


def soft_delete(probe: ProbeEntities) -> Observation:
    """Mark a model as removed once it is found; search for it, and read it."""
    urn = probe_urn()
    probe.write(Proposal(urn, PROBE_ASPECT, probe_properties("1", name_of(urn))))
    probe.require(lambda: probe.find_live(name_of(urn)) == {urn})
    probe.write(Proposal(urn, STATUS, {"removed": True}))
    if probe.wait_until(lambda: not probe.find_live(name_of(urn))) is None:
        return Observation(ProbeAnswer.SHOWN)
    is_readable = urn in probe.read([urn])
    return Observation(ProbeAnswer.HIDDEN if is_readable else ProbeAnswer.DELETED)


def large_query(probe: ProbeEntities) -> Observation:
    """Ask the largest GraphQL query that a run asks."""
    try:
        probe.client.search.datasets_like([probe_name() for _ in range(_LOOKUPS)])
    except CatalogRequestError as error:
        return Observation(ProbeAnswer.REFUSED, error.message)
    return Observation(ProbeAnswer.TAKEN, plural(_LOOKUPS, "search", "searches"))
