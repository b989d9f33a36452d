"""The catalog as a child process, `python -m mlcat_ingest.catalog.server.child`, for a run.

The parent writes one JSON line to the child's standard input, `{"database": ..., "token": ...}`,
and keeps that pipe open; the token stays off the command line, where others could read it. The
child answers with one JSON line on its standard output: once it listens, `{"url": ..., "pid":
..., "needs_token": ..., "dies_with_parent": true}`, or else `{"error": ..., "hint": ...}`. It
ends, without losing anything, when the pipe is closed, also by the parent's death.
"""

import json
import os
import sys
from dataclasses import asdict

from mlcat_ingest.catalog.server.serve import serve
from mlcat_ingest.errors import MlcatError


def main() -> int:
    """Serve until standard input ends, and return the exit code."""
    order = json.loads(_first_line())
    try:
        serve(
            order["database"],
            port=0,
            token=order.get("token"),
            ready=lambda running: _answer(asdict(running)),
            die_with_parent=True,
        )
    except MlcatError as error:
        _answer({"error": error.message, "hint": error.hint})
        return 1
    return 0


def _first_line() -> bytes:
    # Byte for byte: what a buffered reader takes beyond the line is lost to the watch for the end.
    line = b""
    while (byte := os.read(0, 1)) not in {b"", b"\n"}:
        line += byte
    return line


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
