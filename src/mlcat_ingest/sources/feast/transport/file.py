"""A registry that is one file: fetched as a whole from this machine or from an object store."""

import time
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import NotAuthorizedError, RecipeError, SourceUnavailableError
from mlcat_ingest.sources.feast.registry import RawObject, RegistryTransport, split_registry


class FileRegistry(RegistryTransport):
    """Reads a registry that is one message, in a file or an object store."""

    @abstractmethod
    def fetch(self) -> bytes:
        """Return the registry as it is at one moment.

        Raises: as `Source.read`; RecipeError where there is none, or it is too large.
        """

    def objects(self) -> Iterator[RawObject]:
        """Yield every object; the registry is fetched anew each time.

        Cost: one request, and memory for the registry.
        """
        yield from split_registry(self.fetch(), self.shown)


def too_large(shown: str, size: int | None, max_bytes: int) -> RecipeError:
    """Return the error about a registry of more than `max_bytes`."""
    amount = "" if size is None else f" with {plural(size, 'byte')}"
    return RecipeError(
        f"the registry {shown} is too large{amount}; the limit is {plural(max_bytes, 'byte')}",
        hint="check that it is a registry, or raise `max_bytes` in the recipe",
    )


_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.1


class LocalFile(FileRegistry):
    """Reads a registry file; Feast writes it in place, so that a reader may meet half of one."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Keep the path; the file is opened by `fetch`."""
        self.shown = str(path)
        self._path = path
        self._max_bytes = max_bytes

    def server_id(self) -> str:
        """Return the absolute path, without links."""
        return str(self._path.resolve())

    def fetch(self) -> bytes:
        """Return the content, which did not change while it was read."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S)
            try:
                content = self._stable_content()
            except OSError as error:
                raise self._failure(error) from None
            # An empty file is one that has been cut and not written yet: Feast writes a header.
            if content:
                return content
        raise SourceUnavailableError(
            f"the registry {self.shown} is empty or kept changing during {_ATTEMPTS} attempts",
            hint="run `feast apply` again; it may have been interrupted",
        )

    def _stable_content(self) -> bytes:
        """Return the content, empty where it changed meanwhile."""
        with self._path.open("rb") as stream:
            before = self._path.stat()
            # As much memory is taken as is asked for.
            content = stream.read(min(before.st_size, self._max_bytes) + 1)
            after = self._path.stat()
        if len(content) > self._max_bytes:
            raise too_large(self.shown, after.st_size, self._max_bytes)
        same = (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        return content if same and len(content) == after.st_size else b""

    def _failure(self, error: OSError) -> Exception:
        match error:
            case FileNotFoundError():
                return RecipeError(
                    f"no registry at {self.shown}",
                    hint="run `feast apply`, or correct the path; a relative path starts at the "
                    "recipe's folder, in feature_store.yaml at the repository's",
                )
            case PermissionError():
                return NotAuthorizedError(
                    f"access to the registry {self.shown} denied",
                    hint="grant read permission on the file",
                )
            case IsADirectoryError():
                return RecipeError(
                    f"the registry {self.shown} is a folder",
                    hint="set the path of the file in it, or set `repo_path` to the folder",
                )
            case _:
                reason = error.strerror or type(error).__name__
                return SourceUnavailableError(f"the registry {self.shown} cannot be read: {reason}")
