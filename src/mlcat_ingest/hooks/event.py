"""An event: a run has ended, in one small JSON object. Standard library only."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import PurePath
from typing import Self

MAX_BYTES = 64_000
"""The most that a file may hold to be read as an event."""


@dataclass(frozen=True, slots=True)
class Event:
    """That a run has ended: a hint, for whoever brings it into the catalog reads it from MLflow.

    `tracking_uri` is without credentials, `workspace` empty where none was set. `recipe` is the
    path of the recipe that was named, empty where only a catalog was.
    """

    run_id: str
    status: str = ""
    tracking_uri: str = ""
    workspace: str = ""
    recipe: str = ""
    at_ms: int = 0

    def is_for(self, recipe: str) -> bool:
        """Return whether it is for a recipe: told by the file's name, for paths differ by host."""
        return PurePath(self.recipe).name == PurePath(recipe).name

    def to_json(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self | None:
        """Return the event that `text` is, None for anything else."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        known = {one.name: found[one.name] for one in fields(cls) if one.name in found}
        texts = [value for name, value in known.items() if name != "at_ms"]
        if not known.get("run_id") or not all(isinstance(value, str) for value in texts):
            return None
        return cls(**known) if isinstance(known.get("at_ms", 0), int) else None
