"""Our reader alone: every run of a database as a record, one page after the other, nothing kept.

    python tests/benchmarks/read_database.py sqlite:////tmp/store/mlflow.db

Prints the CPU of a run in microseconds, without that of starting.
"""

import sys
import time

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.open import open_reader


def main() -> None:
    reader = open_reader(MlflowConfig(tracking_uri=sys.argv[1]))
    ids = [one.experiment_id for page in reader.experiments() for one in page]
    before = time.process_time()
    runs = sum(len(page) for page in reader.runs(ids))
    print(f"{(time.process_time() - before) / runs * 1e6:.0f} us CPU a run")
    reader.connection.close()


if __name__ == "__main__":
    main()
