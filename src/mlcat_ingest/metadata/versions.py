"""The names of the aspects of versions and version sets, and of the field that is computed."""

from typing import Final

VERSION_PROPERTIES: Final = "versionProperties"
"""Which version of which set an entity is."""

VERSION_SET_PROPERTIES: Final = "versionSetProperties"
"""Which member of a set is the latest, and how members are ordered."""

IS_LATEST: Final = "isLatest"
"""The field of a version that the service computes; a proposal that holds it is refused."""
