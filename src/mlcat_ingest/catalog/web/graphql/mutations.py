"""Mutations: edits by people, and the changes to version sets that DataHub's SDK makes.

Source: DataHub's GraphQL API. The order of versions is left to the catalog.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final
from uuid import uuid4

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.values import (
    UNKNOWN_ACTOR,
    AspectVersion,
    Direction,
    EdgeQuery,
    Write,
)
from mlcat_ingest.catalog.store.edits import (
    Edit,
    add_labels,
    add_link,
    add_owners,
    deprecate,
    describe,
    make_edits,
    remove_labels,
    remove_link,
    remove_owners,
    set_domain,
    set_properties,
)
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.version_sets import GENERATED
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Cohort,
    Fields,
    Loader,
    Node,
    Record,
    Resolver,
    bad_request,
    context_of,
    kind_of,
    nodes_in,
)
from mlcat_ingest.catalog.web.http import check_count
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.metadata.aspects import (
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    INCIDENT_INFO,
    STRUCTURED_PROPERTIES,
    TAG_PROPERTIES,
    VERSION_PROPERTIES,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.metadata.registry import allows, key_aspect, key_aspect_name
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of

_FIRST: Final = "AAAAAAAA"
_MOST_VERSIONS: Final = 10_000


Inputs = Mapping[str, Any]
"""The input of a mutation, as graphql-core has read it."""


def _link(_root: Any, info: GraphQLResolveInfo, **arguments: Inputs) -> Node | None:
    """Make an entity the newest version of a version set; either is made where it is missing.

    The input is a `LinkVersionInput`. Return the set if the version is new there: one that is in a
    set stays as it is.

    Raises:
        BadRequestError: the set is for entities of another type.
        InvalidProposalError: another version was linked at the same time.
    """
    inputs, store = arguments["input"], context_of(info).store
    version_set, urn = inputs["versionSet"], inputs["linkedEntity"]
    _check_set(version_set, urn)
    stored = store.get_many([version_set, urn], {VERSION_SET_PROPERTIES, VERSION_PROPERTIES})
    if VERSION_PROPERTIES in stored.get(urn, {}):
        return None
    set_properties = stored.get(version_set, {}).get(VERSION_SET_PROPERTIES)
    stands = {} if set_properties is None else set_properties.value
    scheme = stands.get("versioningScheme", GENERATED)
    sort_id = inputs["version"]
    if scheme == GENERATED:
        former = _read_aspect(store, stands["latest"], VERSION_PROPERTIES) if stands else None
        sort_id = _FIRST if former is None else _next_sort_id(former.value["sortId"])
    store.write([Write(urn, VERSION_PROPERTIES, _version_value(inputs, scheme, sort_id), "CREATE")])
    return nodes_in(info, [version_set]).get(version_set)


def _unlink(_root: Any, info: GraphQLResolveInfo, **arguments: Inputs) -> Node | None:
    """Take an entity out of its version set and return the set; without versions, that is deleted.

    None is returned where it is in no set.

    Raises:
        BadRequestError: it is in another set than the one in the input.
        VersionConflictError: the entity or the set was changed at the same time.
    """
    store, urn = context_of(info).store, arguments["input"].get("unlinkedEntity")
    if urn is None:
        raise bad_request("unlinkedEntity: missing")
    linked = _read_aspect(store, urn, VERSION_PROPERTIES)
    if linked is None:
        return None
    named, version_set = linked.value["versionSet"], arguments["input"].get("versionSet")
    if version_set not in {None, named}:
        raise BadRequestError(f"{urn} is a version of {named}, not of {version_set}")
    leaving = Write(urn, VERSION_PROPERTIES, change="DELETE", expected_version=str(linked.version))
    store.write([leaving, *_after_leaving(store, named, urn)])
    return nodes_in(info, [named]).get(named)


def _read_aspect(store: Store, urn: str, name: str) -> AspectVersion | None:
    return store.get_many([urn], {name}).get(urn, {}).get(name)


def _check_set(version_set: str, urn: str) -> None:
    if entity_type_of(version_set) != "versionSet":
        raise BadRequestError(f"{version_set!r} is not the URN of a version set")
    entity_type = entity_type_of(urn)
    if not allows(entity_type, VERSION_PROPERTIES):
        raise BadRequestError(f"the entity type {entity_type} does not support versions")
    meant = key_aspect(version_set)[1]["entityType"]
    if meant != entity_type:
        raise BadRequestError(f"{version_set} is a version set of {meant}, not of {entity_type}")


def _version_value(inputs: Inputs, scheme: str, sort_id: str) -> Mapping[str, Any]:
    stamp = {"time": now_ms(), "actor": UNKNOWN_ACTOR}
    value: dict[str, Any] = {
        "versionSet": inputs["versionSet"],
        "version": {"versionTag": inputs["version"], "metadataAttribution": stamp},
        "sortId": sort_id,
        "versioningScheme": scheme,
        "metadataCreatedTimestamp": stamp,
    }
    if inputs.get("comment") is not None:
        value["comment"] = inputs["comment"]
    if inputs.get("sourceTimestamp") is not None:
        actor = inputs.get("sourceCreator") or UNKNOWN_ACTOR
        value["sourceCreatedTimestamp"] = {"time": inputs["sourceTimestamp"], "actor": actor}
    return value


def _next_sort_id(sort_id: str) -> str:
    """Return the text after `sort_id`, counted in capital letters: `AAAZ` leads to `AABA`."""
    kept = sort_id.rstrip("Z")
    if not kept or not ("A" <= kept[-1] < "Z"):
        return f"{sort_id}A"
    return kept[:-1] + chr(ord(kept[-1]) + 1) + "A" * (len(sort_id) - len(kept))


def _after_leaving(store: Store, version_set: str, urn: str) -> list[Write]:
    """Return the writes to a set that `urn` leaves."""
    set_properties = _read_aspect(store, version_set, VERSION_SET_PROPERTIES)
    if set_properties is None or set_properties.value["latest"] != urn:
        return []
    query = EdgeQuery({"VersionOf"}, Direction.INCOMING, 0, _MOST_VERSIONS)
    page = store.related_entities([version_set], query)
    others = {version.urn for version in page[version_set].entities} - {urn}
    versions = store.get_many(others, {VERSION_PROPERTIES})
    order = {
        other: str(aspects[VERSION_PROPERTIES].value["sortId"])
        for other, aspects in versions.items()
        if VERSION_PROPERTIES in aspects
    }
    if not order:
        return [Write(version_set, key_aspect_name("versionSet"), change="DELETE")]
    newest = max(order, key=order.__getitem__)
    value = {**set_properties.value, "latest": newest}
    return [
        Write(
            version_set, VERSION_SET_PROPERTIES, value, expected_version=str(set_properties.version)
        )
    ]


_TAG: Final = f"{PREFIX}tag:"


def _create_tag(_root: Any, info: GraphQLResolveInfo, **arguments: Inputs) -> str:
    inputs = arguments["input"]
    urn = f"{_TAG}{inputs.get('id') or uuid4()}"
    if urn in context_of(info).store.get_many([urn], ()):
        raise bad_request("This Tag already exists!")
    value = {"name": inputs["name"]}
    if inputs.get("description") is not None:
        value["description"] = inputs["description"]
    context_of(info).store.write([Write(urn, TAG_PROPERTIES, value)])
    return urn


def _edits(edit_of: Callable[[Inputs], Edit]) -> Resolver:
    """Return the resolver that makes an edit of one resource, or of each of many."""

    def resolve(_root: Any, info: GraphQLResolveInfo, **arguments: Any) -> bool:
        # Two mutations have no input.
        inputs = arguments.get("input", arguments)
        _check_size(info, inputs)
        resources = inputs.get("resources", [inputs])
        if any(resource.get("subResource") is not None for resource in resources):
            raise bad_request("subResource: only whole entities are edited here")
        urns = [next(one[key] for key in _RESOURCES if key in one) for one in resources]
        _edit(info, urns, edit_of(inputs))
        return True

    return resolve


def _check_size(info: GraphQLResolveInfo, inputs: Inputs) -> None:
    """Check how much one transaction changes: each entry of a list, on each of the resources."""
    count = prod(max(1, len(value)) for value in inputs.values() if isinstance(value, list))
    check_count(range(count), "changes", context_of(info).limits.proposals)


def _edit(info: GraphQLResolveInfo, urns: Sequence[str], edit: Edit) -> None:
    context_of(info).store.change(make_edits, urns, [edit], UNKNOWN_ACTOR)


def _listed(inputs: Inputs, name: str) -> Sequence[Any]:
    """Return a list of an input, `tagUrns`, or the one value of the older mutation, `tagUrn`."""
    return inputs[f"{name}s"] if f"{name}s" in inputs else [inputs[name]]


def _deprecation(inputs: Inputs) -> Edit:
    names = ("decommissionTime", "replacement")
    given = {name: inputs[name] for name in names if inputs.get(name) is not None}
    return deprecate(
        {"deprecated": inputs["deprecated"], "note": inputs.get("note") or "", **given}
    )


def _edit_properties(_root: Any, info: GraphQLResolveInfo, **arguments: Inputs) -> Record:
    inputs = arguments["input"]
    _check_size(info, inputs)
    values = {
        one["structuredPropertyUrn"]: [
            {"string": value["stringValue"]}
            if value.get("stringValue") is not None
            else {"double": value.get("numberValue")}
            for value in one["values"]
        ]
        for one in inputs.get("structuredPropertyInputParams", ())
    }
    urn, removed = inputs["assetUrn"], inputs.get("structuredPropertyUrns", ())
    _edit(info, [urn], set_properties(values, removed))
    # What the request read before may be older.
    node = Node(urn, kind_of(entity_type_of(urn)), Cohort(Loader(context_of(info).store), [urn]))
    return node.record(STRUCTURED_PROPERTIES) or Record(node, {"properties": []})


_PRIORITIES: Final = ("CRITICAL", "HIGH", "MEDIUM", "LOW")
"""The names of an incident's priorities, whose places are their numbers."""


def _raise_incident(_root: Any, info: GraphQLResolveInfo, **arguments: Inputs) -> str:
    inputs = _given(arguments["input"])
    _check_size(info, inputs)
    entities = inputs.get("resourceUrns") or [
        inputs[one] for one in ("resourceUrn",) if one in inputs
    ]
    if not entities:
        raise bad_request("At least 1 resource urn must be defined to raise an incident.")
    if inputs["type"] == "CUSTOM" and not inputs.get("customType"):
        raise bad_request("customType is required: Failed to create incident.")
    known = context_of(info).store.exists(entities)
    if absent := [urn for urn in entities if urn not in known]:
        raise bad_request(f"Failed to raise an incident on {absent[0]}. Entity does not exist.")
    stamp = {"time": now_ms(), "actor": UNKNOWN_ACTOR}
    names = ("type", "customType", "title", "description", "startedAt")
    value: dict[str, Any] = {name: inputs[name] for name in names if name in inputs}
    value["entities"] = entities
    value["status"] = {"state": "ACTIVE", **_given(inputs.get("status", {})), "lastUpdated": stamp}
    value |= {"source": {"type": "MANUAL"}, "created": stamp}
    if "priority" in inputs:
        value["priority"] = _PRIORITIES.index(inputs["priority"])
    if assignees := inputs.get("assigneeUrns"):
        value["assignees"] = [{"actor": urn, "assignedAt": stamp} for urn in assignees]
    urn = f"{PREFIX}incident:{uuid4()}"
    context_of(info).store.write([Write(urn, INCIDENT_INFO, value)])
    return urn


def _update_incident_status(_root: Any, info: GraphQLResolveInfo, **arguments: Any) -> bool:
    status = _given(arguments["input"])
    edit = Edit(
        INCIDENT_INFO,
        lambda value, stamp: {**value, "status": {**status, "lastUpdated": stamp}},
        "Failed to update incident. Incident does not exist.",
    )
    _edit(info, [arguments["urn"]], edit)
    return True


def _given(inputs: Inputs) -> Inputs:
    return {name: value for name, value in inputs.items() if value is not None}


_RESOURCES: Final = ("resourceUrn", "urn", "entityUrn")
"""The names that inputs have for the URN of the entity that is edited."""

_EDITS: Final[Mapping[str, Callable[[Inputs], Edit]]] = {
    "addTag addTags batchAddTags": lambda one: add_labels(GLOBAL_TAGS, _listed(one, "tagUrn")),
    "removeTag batchRemoveTags": lambda one: remove_labels(GLOBAL_TAGS, _listed(one, "tagUrn")),
    "addTerm addTerms batchAddTerms": (
        lambda one: add_labels(GLOSSARY_TERMS, _listed(one, "termUrn"))
    ),
    "removeTerm batchRemoveTerms": (
        lambda one: remove_labels(GLOSSARY_TERMS, _listed(one, "termUrn"))
    ),
    "addOwner addOwners batchAddOwners": (
        lambda one: add_owners(one.get("owners", [one]), one.get("ownershipTypeUrn"))
    ),
    "removeOwner batchRemoveOwners": (
        lambda one: remove_owners(_listed(one, "ownerUrn"), one.get("ownershipTypeUrn"))
    ),
    "setDomain unsetDomain batchSetDomain": lambda one: set_domain(one.get("domainUrn")),
    "addLink": (
        lambda one: add_link(one["resourceUrn"], one["linkUrl"], one["label"], one.get("settings"))
    ),
    "removeLink": lambda one: remove_link(one["linkUrl"], one.get("label")),
    "updateDeprecation": _deprecation,
    "updateDescription": lambda one: describe(one["resourceUrn"], one["description"]),
}
"""Mutations that are one edit, a single one and those of many, to what makes it of the input."""

MUTATIONS: Final[Fields] = {
    "createTag": _create_tag,
    "raiseIncident": _raise_incident,
    "updateIncidentStatus": _update_incident_status,
    "linkAssetVersion": _link,
    "unlinkAssetVersion": _unlink,
    "upsertStructuredProperties": _edit_properties,
    "removeStructuredProperties": _edit_properties,
    **{name: _edits(edit) for names, edit in _EDITS.items() for name in names.split()},
}
"""The fields of `Mutation`."""
