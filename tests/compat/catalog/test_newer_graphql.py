"""graphql-core 3.3, which another package may bring one day: the catalog imports it and answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.commands import ended
from support.installed import skip_without_index

ANSWER = """
import json, pathlib, sys
import graphql
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.graphql.execution import answer

store = Store.open(pathlib.Path(sys.argv[1]))
create_app(store)
query = "{ search(input: {type: MLMODEL, query: \\"*\\"}) { total } }"
reply = answer(store, query, {})
store.close()
print(json.dumps([graphql.version, reply]))
"""


def test_graphql_core_3_3_is_imported_and_answers(tmp_path: Path) -> None:
    target = tmp_path / "installed"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
    made = subprocess.run(
        [*install, "--python", sys.executable, "--target", str(target), "graphql-core>=3.3,<3.4"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    skip_without_index(made.stderr)
    assert made.returncode == 0, made.stderr
    done = ended(
        [sys.executable, "-c", ANSWER, str(tmp_path / "catalog.db")],
        env={**os.environ, "PYTHONPATH": str(target)},
    )
    version, answer = json.loads(done.stdout)
    assert version.startswith("3.3.")
    assert answer == {"data": {"search": {"total": 0}}, "extensions": {}}
