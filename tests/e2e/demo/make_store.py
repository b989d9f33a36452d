"""Makes the MLflow store of `mlcat-ingest demo` anew: trained for real, through a real server.

    .venv/bin/python tests/e2e/demo/make_store.py

It writes `src/mlcat_ingest/cli/demo/mlflow.db.gz`, without the files of the models. Of the machine
it leaves no name and no path.
"""

import gzip
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from mlcat_ingest.cli import demo
from mlcat_ingest.cli.demo.train import train_models
from support.mlflow_server import running
from support.venvs import OURS

TARGET = Path(demo.__file__).with_name(f"{demo.STORE_FILE}.gz")
USER = "demo"
SCRIPT = "train.py"


def make_store(folder: Path) -> bytes:
    """Train in an empty folder, and return the database."""
    places = ["--default-artifact-root", "mlflow-artifacts:/"]
    places += ["--artifacts-destination", str(folder / "artifacts")]
    # MLflow notes who runs which file, and the commit of the repository that the file is in.
    os.environ |= {"LOGNAME": USER, "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
    sys.argv[0] = SCRIPT
    os.chdir(folder)
    with running(OURS, folder, extra_args=places) as server:
        train_models(server.url)
    with closing(sqlite3.connect(server.db_path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("VACUUM")
    return server.db_path.read_bytes()


def main() -> None:
    """Write the store that the package brings."""
    with tempfile.TemporaryDirectory() as folder:
        # Without a time and at the highest level, equal databases give equal files.
        TARGET.write_bytes(gzip.compress(make_store(Path(folder)), mtime=0))
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
