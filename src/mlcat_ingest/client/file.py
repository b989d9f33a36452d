"""The catalog that is a file of proposals: to look at them, or to bring them elsewhere.

A line is one proposal in the shape of DataHub's own file sink, which its file source reads; a
name that ends in ``.json`` gets one JSON list. The file appears whole or not at all: until
`close` the lines are in ``<path>.partial``.
"""

import logging
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from mlcat_ingest.client.base import Catalog, CatalogFacts, Evaluates, NoEvaluation, StoredEntity
from mlcat_ingest.client.config import FileSinkConfig
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import (
    AspectRejectedError,
    CatalogUnavailableError,
    CodecError,
    InvalidUrnError,
    RecipeError,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Proposal

log = logging.getLogger(__name__)

_NOT_SENT = 0


class FileCatalog(Catalog):
    """Writes proposals to a file. Safe to use from several threads."""

    def __init__(self, config: FileSinkConfig) -> None:
        """Keep the path; nothing is opened yet."""
        self._path = config.path
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._listed = config.path.suffix.lower() == ".json"
        self._empty = True

    @property
    def _partial(self) -> Path:
        return self._path.with_name(f"{self._path.name}.partial")

    @property
    def facts(self) -> CatalogFacts:
        """Nothing is kept: each run makes the file anew, whole."""
        return CatalogFacts(keeps=False)

    @property
    def evaluator(self) -> Evaluates:
        """Nothing: a file has no metadata tests."""
        return NoEvaluation("a file cannot evaluate metadata tests")

    def open(self, *, read_only: bool = False) -> str:
        """Open the file beside its final place, and return that place.

        With `read_only` nothing is made, and there is nothing to read.

        Raises:
            RecipeError: the file cannot be made.
        """
        if read_only:
            return f"the file {self._path}"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # A link stays a link: what it points to is replaced.
            self._path = self._path.resolve()
            if self._path.exists() and not self._path.is_file():
                raise RecipeError(f"{self._path} is not a regular file", hint="use another path")
            self._file = self._partial.open("wb")
        except OSError as error:
            raise RecipeError(f"cannot write {self._path}: {error.strerror}") from error
        return f"the file {self._path}"

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return nothing: a file has no stored aspects to merge with."""
        del urns, aspects
        return {}

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write `proposals` and return those of entities without a faithful JSON form.

        Raises:
            CatalogUnavailableError: the file cannot be written any more.
        """
        lines: list[bytes] = []
        refused: list[AspectRejectedError] = []
        for _, group in groupby(proposals, lambda proposal: proposal.entity_urn):
            neighbours = list(group)
            try:
                lines.extend([dumps(proposal.record()) for proposal in neighbours])
            except (CodecError, InvalidUrnError) as error:
                refused += [
                    AspectRejectedError(
                        urn=proposal.entity_urn,
                        aspect=proposal.aspect_name,
                        status=_NOT_SENT,
                        reason=f"not written: {error}",
                    )
                    for proposal in neighbours
                ]
        if lines:
            with self._lock:
                self._append(lines)
        return refused

    def _append(self, lines: Sequence[bytes]) -> None:
        if self._file is None:
            raise CatalogUnavailableError(f"the file {self._path} is not open")
        between = b",\n" if self._listed else b"\n"
        before = (b"[\n" if self._listed else b"") if self._empty else between
        self._empty = False
        try:
            self._file.write(before + between.join(lines))
        except OSError as error:
            raise self._write_error(error) from error

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield whether the file's folder can be written, changing nothing even with `write`."""
        del write
        folder = next(
            parent for parent in (self._path.parent, *self._path.parents) if parent.exists()
        )
        if os.access(folder, os.W_OK | os.X_OK) and folder.is_dir() and not self._path.is_dir():
            yield Finding("file", "ok", str(self._path))
        else:
            yield Finding("file", "failed", f"cannot write {self._path}", "use another path")

    def close(self, *, complete: bool = True) -> None:
        """Put the file in its place; where the run is not `complete`, leave ``<path>.partial``.

        Raises:
            CatalogUnavailableError: the file cannot be finished.
        """
        with self._lock:
            file, self._file = self._file, None
            if file is None:
                return
            try:
                with file:
                    whole = b"\n]\n" if self._listed else b"\n"
                    file.write((b"[]\n" if self._listed else b"") if self._empty else whole)
                    file.flush()
                    os.fsync(file.fileno())
                if complete:
                    self._partial.replace(self._path)
                    _sync_folder(self._path.parent)
                else:
                    log.warning("the run did not complete; its proposals are in %s", self._partial)
            except OSError as error:
                raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> CatalogUnavailableError:
        return CatalogUnavailableError(
            f"cannot write {self._partial}: {error.strerror}",
            hint="check the free space of the disk",
        )


def _sync_folder(folder: Path) -> None:
    # Without this a power cut could still take the new name away.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
