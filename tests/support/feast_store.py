"""A Feast registry of any size: a project whose views have so many features each."""

from pathlib import Path
from typing import Any

from mlcat_ingest.sources.feast.registry import MESSAGES

_INT64, _DOUBLE = 4, 5


def write_registry(path: Path, *, views: int, features: int) -> None:
    """Write a registry of so many views to `path`; all of them have one entity."""
    registry = MESSAGES["Registry"]()
    registry.projects.add(spec={"name": "big"})
    registry.entities.add(
        spec={"name": "driver", "project": "big", "join_key": "driver_id", "value_type": _INT64}
    )
    for number in range(views):
        registry.feature_views.add(spec=_view(number, features))
    path.write_bytes(registry.SerializeToString())


def _view(number: int, features: int) -> dict[str, Any]:
    return {
        "name": f"view_{number:05d}",
        "project": "big",
        "entities": ["driver"],
        "entity_columns": [{"name": "driver_id", "value_type": _INT64}],
        "features": [
            {
                "name": f"feature_{at:02d}",
                "value_type": _DOUBLE,
                "description": f"What number {at} of view {number} is",
                "tags": {"unit": f"u{at % 5}"},
            }
            for at in range(features)
        ],
        "description": f"View number {number}",
        "tags": {"team": f"team-{number % 20}"},
        "owner": f"owner-{number % 50}@example.com",
        "batch_source": {
            "name": f"source_{number}",
            "type": "BATCH_FILE",
            "file_options": {"uri": f"s3://lake/features/{number}.parquet"},
        },
    }
