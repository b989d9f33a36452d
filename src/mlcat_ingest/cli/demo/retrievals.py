"""What Feast was asked for when the demo's training data was made: recorded, not asked again.

How the records were made stands in `feast/README.md`.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.links.evidence import FEAST_REFS

_FEAST: Final = Path(__file__).with_name("feast")

REGISTRY_FILE: Final = "feast-registry.db"


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The tags that Feast's MLflow integration put on a run."""

    tags: Mapping[str, str]

    def of(self, data: Any) -> Any:
        """Return those columns of a frame that were asked for, as Feast names them."""
        named = data.rename(columns=lambda name: name.replace(" ", "_").replace("/", "_"))
        return named[[ref.partition(":")[2] for ref in self.tags[FEAST_REFS].split(",")]]


def retrieved(run_name: str) -> Retrieval:
    """Return what was recorded for the run of this name."""
    recorded = json.loads((_FEAST / "retrievals.json").read_text(encoding="utf-8"))
    return Retrieval(recorded[run_name])


def put_registry(folder: Path) -> None:
    """Put the registry of the demo's feature store into `folder`, unless it is there."""
    target = folder / REGISTRY_FILE
    if not target.exists():
        shutil.copyfile(_FEAST / "registry.db", target)
