"""Aspects by which people govern entities: owners, tags, terms, links, domains, typed properties.

Source: `com.linkedin.common.*`, `com.linkedin.domain.*`, `com.linkedin.structured.*` of DataHub's
metadata model.
"""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import (
    ATTRIBUTION,
    SearchField,
    aspect,
    choices,
)

OWNERSHIP_TYPES: Final = choices("com.linkedin.common.Owner", "type")
"""The catalog's own types of ownership."""

OWNERSHIP: Final = aspect(
    "ownership",
    merge_keys={"owners": f"owner type typeUrn {ATTRIBUTION}"},
    patch_keys={"owners": "owner type typeUrn"},
    computed=frozenset({"ownerTypes"}),
    curated="owners",
    searched=(
        SearchField("owners.owner", "owners", "tags", entity_types=("corpuser", "corpGroup")),
    ),
)
"""The owners of the entity. Source in MLflow: the run's user, the `mlflow.user` tag.

`ownerTypes` is an index by owner type that the service computes; leave it out.
"""

GLOBAL_TAGS: Final = aspect(
    "globalTags",
    merge_keys={"tags": f"tag {ATTRIBUTION}"},
    patch_keys={"tags": "tag"},
    curated="tags",
    searched=(SearchField("tags.tag", "tags", "tags", entity_types=("tag",)),),
)
"""The catalog's tags on the entity, which are names of their own (not MLflow's tags)."""

GLOSSARY_TERMS: Final = aspect(
    "glossaryTerms",
    merge_keys={"terms": f"urn {ATTRIBUTION}"},
    patch_keys={"terms": "urn"},
    unowned=frozenset({"auditStamp"}),
    curated="terms",
    searched=(SearchField("terms.urn", "glossaryTerms", "tags", entity_types=("glossaryTerm",)),),
)
"""The business terms of the entity, and when they last changed."""

INSTITUTIONAL_MEMORY: Final = aspect(
    "institutionalMemory",
    merge_keys={"elements": "url"},
    curated="elements",
    searched=(SearchField("elements.description", "links", "description", keyword=False),),
)
"""Links to pages about the entity, keyed by address and description."""

DOMAINS: Final = aspect(
    "domains",
    patch_keys={"domains": ""},
    computed=frozenset({"domainAssociations"}),
    curated="domains",
    searched=(SearchField("domains", "domains", "tags", entity_types=("domain",)),),
)
"""The business domains of the entity; the catalog's page shows the first.

`domainAssociations` repeats them as records that the service computes; leave it out.
"""

APPLICATIONS: Final = aspect("applications")
"""The applications that the entity belongs to."""

DEPRECATION: Final = aspect("deprecation", searched=(SearchField("deprecated", "deprecated"),))
"""That the entity should no longer be used, why, from when, and what to use instead."""

DOCUMENTATION: Final = aspect(
    "documentation",
    searched=(
        SearchField("documentations.documentation", "description", "description", keyword=False),
    ),
)
"""Texts about the entity from several authors or tools."""

STRUCTURED_PROPERTIES: Final = aspect(
    "structuredProperties",
    merge_keys={"properties": "propertyUrn"},
    patch_keys={"properties": f"propertyUrn {ATTRIBUTION}"},
    curated="properties",
)
"""Typed properties that the catalog's users defined, keyed by property."""
