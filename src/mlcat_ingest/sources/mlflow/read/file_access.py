"""Small text files that were logged with a run or a model, and how to get at one."""

from pathlib import Path
from tempfile import TemporaryDirectory
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
        raise SourceUnavailableError(f"{file} cannot be read: {error.strerror}") from error


def client_text(tracking_uri: str, place: FileLocation, path: str) -> str | None:
    """Return what a file holds, got by MLflow's own client, with whatever that needs for it."""
    from mlflow.artifacts import download_artifacts, list_artifacts
    from mlflow.exceptions import MlflowException

    address = f"{place.uri}/{path}"
    folder, _, name = address.rpartition("/")
    try:
        listed = list_artifacts(artifact_uri=folder, tracking_uri=tracking_uri)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    found = next((one for one in listed if one.path.rpartition("/")[2] == name), None)
    if found is None or found.is_dir or (found.file_size or 0) > MAX_BYTES:
        return None
    with TemporaryDirectory() as own:
        file = download_artifacts(artifact_uri=address, dst_path=own, tracking_uri=tracking_uri)
        return Path(file).read_text("utf-8", "replace")
