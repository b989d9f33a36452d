"""Dead letters: what a run could not bring into the catalog, a JSON object a line."""

import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TextIO

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.environment import make_folder, opener
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import SkippableError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.recipe import secrets

log = logging.getLogger(__name__)


class DeadLetters:
    """The file of one run's dead letters; every method may be called from any thread.

    The first letter of a run replaces the file of an earlier run. A complete run without letters
    deletes the file.
    """

    def __init__(
        self,
        path: Path | None = None,
        on_letter: Callable[[str], object] = str,
        *,
        add: bool = False,
    ) -> None:
        """Write to `path`, or nowhere; secrets that this process knows are hidden.

        `on_letter` is called with the URN, or the name of the record, of each letter. With `add`
        the letters of an earlier part of the run stay in the file.
        """
        self.path = path
        self.written = 0
        self._on_letter = on_letter
        self._add = add
        self._lock = threading.Lock()
        self._file: TextIO | None = None

    def write_refused(self, outcome: Outcome) -> None:
        """Keep each proposal of an entity that the catalog refused."""
        for refusal in outcome.refusals:
            self.write(outcome.urn, refusal.reason, refusal)

    def close(self, *, complete: bool) -> None:
        """Close the file; after a `complete` run without letters there is none any more."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()
            elif complete and self.path is not None and not self.written and not self._add:
                try:
                    self.path.unlink(missing_ok=True)
                except OSError as error:
                    # Nothing was refused: the old file is only a nuisance, and no failure.
                    why = error.strerror
                    log.warning("the dead-letter file %s cannot be removed: %s", self.path, why)

    def write(self, about: str, reason: str, refusal: Refusal | None = None) -> None:
        """Keep a record of a source that could not be mapped, or a `refusal` of an entity."""
        self._on_letter(about)
        proposal = None if refusal is None else refusal.proposal
        letter = {
            "urn": None if refusal is None else printable(about),
            "aspect": None if proposal is None else proposal.aspect_name,
            "record": printable(about) if refusal is None else None,
            "reason": printable(reason),
            "attempt": 1 if refusal is None else refusal.attempt,
            "at_ms": now_ms(),
        }
        line = secrets.mask(_line(letter, proposal))
        with self._lock:
            self.written += 1
            if self.path is None:
                return
            try:
                if self._file is None:
                    make_folder(self.path.parent)
                    mode: Literal["a", "w"] = "a" if self._add else "w"
                    self._file = open(  # noqa: SIM115 - closed by `close`
                        self.path, mode, encoding="utf-8", errors="backslashreplace", opener=opener
                    )
                self._file.write(f"{line}\n")
                self._file.flush()
            except OSError as error:
                log.error("dead letters cannot be kept in %s: %s", self.path, error.strerror)  # noqa: TRY400 - no fault of the program
                file, self._file, self.path = self._file, None, None
                # Closing tries to write the rest of the buffer again; the error is logged already.
                with contextlib.suppress(OSError):
                    if file is not None:
                        file.close()


def _line(letter: dict[str, Any], proposal: Proposal | None) -> str:
    try:
        entry = None if proposal is None else proposal.record()
        return dumps({**letter, "proposal": entry}).decode()
    except SkippableError:
        # It has no JSON form, which is why it was refused.
        shown = None if proposal is None else repr(proposal.aspect)
        return dumps({**letter, "proposal": None, "shown": shown}).decode()
