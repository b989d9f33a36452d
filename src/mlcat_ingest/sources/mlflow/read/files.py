"""Files of runs and logged models: where they are, and how those on this machine are read."""

from typing import Final, Literal, NamedTuple, Protocol

from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.sources.mlflow.values.uris import folder_of

MAX_BYTES: Final = 1024 * 1024
"""Size of the largest file that is read; one that is larger counts as not there."""


class FileLocation(NamedTuple):
    """A run or a logged model, whose files are at `uri`."""

    kind: Literal["run", "model"]
    id: str
    uri: str | None


class ReadsFiles(Protocol):
    """A reader that can get at files."""

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return what a file holds; None where there is none, or none that can be got at from here.

        Raises:
            SourceUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: nobody can say whether there is one.

        Cost: two requests over a network.
        """
        ...


def local_text(place: FileLocation, path: str) -> str | None:
    """Return what a file in a folder of this machine holds, None for any other place.

    Raises:
        SourceUnavailableError: it is there and cannot be read.
    """
    folder = folder_of(place.uri) if place.uri else None
    if folder is None:
        return None
    file = folder / path
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return None
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text("utf-8", "replace")
    except OSError as error:
        raise SourceUnavailableError(f"cannot read {file}: {error.strerror}") from error
