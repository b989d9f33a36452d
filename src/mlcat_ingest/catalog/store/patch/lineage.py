"""Fine-grained lineage under a patch: a tree with a node for each upstream field.

Patches address it as `/fineGrainedLineages/<operation>/<downstream>/<query>/<upstream>`, while the
aspect has an array whose entries hold several upstreams each.
Source: the patch template of `upstreamLineage` in DataHub's metadata model 1.7.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.metadata.aspects.assets import UPSTREAM_LINEAGE
from mlcat_ingest.metadata.aspects.processes import DATA_JOB_INPUT_OUTPUT

FIELD: Final = "fineGrainedLineages"

ASPECTS_WITH_LINEAGE: Final = frozenset({UPSTREAM_LINEAGE, DATA_JOB_INPUT_OUTPUT})

_NONE = "NONE"
_TYPES = ("upstreamType", "downstreamType")


def to_tree(lineages: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the entries as a tree, and apart from it those that patches cannot address."""
    tree: dict[str, Any] = {}
    others: list[Any] = []
    for entry in lineages if isinstance(lineages, list) else ():
        place = _place(entry)
        if place is None:
            others.append(entry)
            continue
        operation, downstream, query = place
        upstreams = tree.setdefault(operation, {}).setdefault(downstream, {}).setdefault(query, {})
        carried = {name: entry[name] for name in ("confidenceScore", *_TYPES) if name in entry}
        upstreams.update({upstream: dict(carried) for upstream in entry["upstreams"]})
    return tree, others


def _place(entry: Any) -> tuple[str, str, str] | None:
    if not isinstance(entry, dict):
        return None
    ends = [entry.get("upstreams"), entry.get("downstreams")]
    names = (entry.get("transformOperation") or _NONE, entry.get("query") or _NONE)
    texts = all(isinstance(end, list) and all(isinstance(u, str) for u in end) for end in ends)
    if not texts or len(entry["downstreams"]) != 1 or not all(isinstance(n, str) for n in names):
        return None
    return names[0], entry["downstreams"][0], names[1]


def to_entries(tree: Any, others: list[Any]) -> list[Any]:
    """Return the entries of a tree, one for each operation, downstream and query, and `others`.

    Raises:
        InvalidProposalError: the patch made something else of the tree.
    """
    if isinstance(tree, list):  # the patch put an array in its place
        return tree
    return others + [
        _entry(operation, downstream, query, upstreams)
        for operation, below in _nodes(tree)
        for downstream, queries in _nodes(below)
        for query, upstreams in _nodes(queries)
        if upstreams
    ]


def _nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(tree, Mapping):
        raise InvalidProposalError(
            f"patch: below /{FIELD} are /<operation>/<downstream>/<query>/<upstream>"
        )
    return iter(tree.items())


def _entry(operation: str, downstream: str, query: str, upstreams: Any) -> dict[str, Any]:
    facts = [fact if isinstance(fact, dict) else {} for _, fact in _nodes(upstreams)]
    scores = [s for fact in facts if isinstance(s := fact.get("confidenceScore"), int | float)]
    entry: dict[str, Any] = {
        "upstreamType": "FIELD_SET",
        "upstreams": list(upstreams),
        "downstreamType": "FIELD",
        "downstreams": [downstream],
        "transformOperation": operation,
        "confidenceScore": min(scores, default=1.0),
    }
    for fact in facts:
        entry |= {name: fact[name] for name in _TYPES if isinstance(fact.get(name), str)}
    return entry | ({"query": query} if query != _NONE else {})
