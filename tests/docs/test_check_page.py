"""`docs/check.md` names every finding there is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "check.md").read_text()
SOURCES = (
    "reach.py",
    "sinks/checks.py",
    "sinks/probe.py",
    "sources/feast/transport/checks.py",
    "sources/mlflow/checks.py",
    "sources/mlflow/server.py",
    "pipeline/overlap.py",
    "pipeline/state/checks.py",
)

NAMES = re.compile(
    r'(?:what(?:, \w+)* = |_[A-Z_]+(?:: Final)? = |Finding\(\s*|_failed\()f?"([^"]+)"'
)


def test_every_finding_is_on_the_page() -> None:
    named = set(re.findall(r"`([^`]+)`", PAGE.rpartition("```")[2]))
    found: set[str] = set()
    for source in SOURCES:
        text = (ROOT / "src" / "mlcat_ingest" / source).read_text()
        for name in NAMES.findall(text):
            if re.match(r"(\{name\}|MLflow|Feast|catalog|state|dead-letter|overlapping) ", name):
                found.add(name.replace("{name}", "MLflow").partition(": ")[0])
    assert len(found) >= 15, found
    told = {name.partition(": ")[0] for name in named}
    assert found - told == set()
