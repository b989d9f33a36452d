"""What can be the subject of a `with` block, and is closed at its end."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Is closed at the end of a `with` block, however that ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held; safe to call twice."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
