"""What the build adds to the metadata: project URLs, and the README as an index shows it.

The address of the repository is known only to the workflow of a release, which gives it here.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://)([^)]+)\)")


class ReleaseMetadata(MetadataHookInterface):
    """Sets `readme` and `urls`, from `MLCAT_RELEASE_REPOSITORY` and `MLCAT_RELEASE_COMMIT`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Make links absolute; without an address, a link becomes its text."""
        repository = os.environ.get("MLCAT_RELEASE_REPOSITORY")
        commit = os.environ.get("MLCAT_RELEASE_COMMIT")
        if bool(repository) != bool(commit):
            raise ValueError("set both MLCAT_RELEASE_REPOSITORY and MLCAT_RELEASE_COMMIT, or none")

        def absolute(link: re.Match[str]) -> str:
            picture, text, target = link.groups()
            if not repository:
                return text
            page = f"README.md{target}" if target.startswith("#") else target
            return f"{picture}[{text}]({repository}/{'raw' if picture else 'blob'}/{commit}/{page})"

        text = RELATIVE.sub(absolute, Path(self.root, "README.md").read_text())
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {}
        if repository:
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/{commit}/docs/README.md",
                "Changelog": f"{repository}/blob/{commit}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
