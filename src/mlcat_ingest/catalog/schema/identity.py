"""What a URN says of its entity, read leniently: every text has a name."""

from dataclasses import dataclass
from typing import Final

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import FABRICS, PREFIX, parse, raw_parts

PLATFORM: Final = f"{PREFIX}dataPlatform:"
"""What the URN of a platform begins with; its name is the rest."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The name inside a URN, and the names of its platform and environment, empty without one."""

    name: str
    platform: str
    environment: str

    @classmethod
    def of(cls, urn: str) -> "Identity":
        """Return what `urn` says; of several parts the second is the name."""
        parts = _parts(urn)
        first, last = parts[0], parts[-1]
        return cls(
            name=parts[min(1, len(parts) - 1)],
            platform=first.removeprefix(PLATFORM) if first.startswith(PLATFORM) else "",
            environment=last if last in FABRICS else "",
        )


def _parts(urn: str) -> tuple[str, ...]:
    """Return the parts of `urn` decoded, or as they are where the kind is not known."""
    try:
        # Most URNs have nothing to decode, and then nothing about their kind needs to be known.
        return parse(urn).parts if "%" in urn else raw_parts(urn)
    except InvalidUrnError:
        pass
    try:
        return raw_parts(urn)
    except InvalidUrnError:
        return (urn,)
