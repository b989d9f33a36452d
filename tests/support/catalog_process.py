"""The embedded catalog as a process of its own, started by the command that users run."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

_LISTENING = re.compile(r"the catalog is at (http://127\.0\.0\.1:\d+) \(Ctrl-C stops it\)\n")
_COUNTED = re.compile(
    r'^mlcat_catalog_requests_total\{.*status="(\d+)"\} ([\d.e+]+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class CatalogProcess:
    """A catalog that answers at `url`; `log` is where its standard error goes."""

    process: "subprocess.Popen[str]"
    url: str
    log: Path

    def answers(self) -> Counter[int]:
        """Return how many requests it has answered with each HTTP status."""
        page = requests.get(f"{self.url}/metrics", timeout=30).text
        counted: Counter[int] = Counter()
        for status, times in _COUNTED.findall(page):
            counted[int(status)] += int(float(times))
        return counted

    def kill(self) -> None:
        """End it at once, as a crash would, and wait until it is gone."""
        self.process.kill()
        self.process.wait()


@contextmanager
def catalog_process(
    database: Path, environment: Mapping[str, str] | None = None
) -> Iterator[CatalogProcess]:
    """Serve the catalog in `database` on a free loopback port until the block ends.

    Variables of `environment` are set beside those of this process.
    """
    with spawned(database, environment) as (process, log):
        assert process.stdout is not None
        line = process.stdout.readline()
        found = _LISTENING.fullmatch(line)
        assert found is not None, f"{line}{log.read_text()}"
        yield CatalogProcess(process, found[1], log)


@contextmanager
def spawned(
    database: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Start a catalog without waiting for it, and kill it at the block's end."""
    log = database.with_name(f"{database.name}.log")
    command = [sys.executable, "-m", "mlcat_ingest", "catalog", "serve"]
    command += ["--db", str(database), "--port", "0"]
    # Killed while it writes its coverage, it would leave half a file that is then warned about.
    unmeasured = {k: v for k, v in os.environ.items() if k != "COVERAGE_PROCESS_CONFIG"}
    environment = {**unmeasured, **(environment or {})}
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process,
    ):
        try:
            yield process, log
        finally:
            process.kill()
