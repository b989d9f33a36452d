"""Aspects of what models are linked to: platforms, datasets, containers, tags and tests.

Source: `com.linkedin.dataplatform.*`, `com.linkedin.container.*`,
`com.linkedin.dataset.*`, `com.linkedin.tag.*`, `com.linkedin.test.*` of DataHub's metadata model.
"""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import aspect

DATA_PLATFORM_INFO: Final = aspect("dataPlatformInfo")
"""A platform: its short name, what kind of system it is, and how it parts dataset names."""

DATA_PLATFORM_INSTANCE_PROPERTIES: Final = aspect("dataPlatformInstanceProperties")
"""One installation of a platform: name to show, description, address."""

UPSTREAM_LINEAGE: Final = aspect("upstreamLineage", patch_keys={"upstreams": "dataset"})
"""Upstream lineage of a dataset, as a whole and field by field."""

DATASET_PROPERTIES: Final = aspect("datasetProperties", patch_keys={})
"""A dataset: name to show, full name, description and addresses. MLflow: a dataset input."""

TAG_PROPERTIES: Final = aspect("tagProperties")
"""A tag: name to show, description, colour as `#rrggbb`."""

CONTAINER_PROPERTIES: Final = aspect("containerProperties")
"""A container of assets; `qualifiedName` is its full name at the source."""

TEST_INFO: Final = aspect("testInfo")
"""A metadata test: its name, its category (free text) and its rules."""

TEST_RESULTS: Final = aspect(
    "testResults", edge_fields={"IsFailing": "failingTests", "IsPassing": "passingTests"}
)
"""The metadata tests that the entity passes and fails; written by the catalog."""

INCIDENT_INFO: Final = aspect("incidentInfo")
"""An incident: what is wrong with which entities, from 0 (critical) to 3 by priority."""

INCIDENTS_SUMMARY: Final = aspect("incidentsSummary")
"""The incidents of an entity, which the catalog lists; the lists of URNs are older."""
