"""Training that is disturbed: in one process for each environment, all forked from one.

An import of MLflow for each would take minutes.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.commands import ended
from support.hooks import Bench

_TRAINS: Final = """
import json, os, sys
import mlflow

children = {}
for name, env in json.loads(sys.argv[1]).items():
    child = os.fork()
    if child == 0:
        os.environ.update(env)
        for number, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}.{ending}", os.O_WRONLY | os.O_CREAT), number)
        with mlflow.start_run() as run:
            mlflow.log_metric("loss", 0.5)
        with open(f"{name}.id", "w") as file:
            file.write(run.info.run_id)
        print("trained")
        sys.exit(7)
    children[child] = name
codes = {}
while children:
    child, status = os.wait()
    codes[children.pop(child)] = os.waitstatus_to_exitcode(status)
print(json.dumps(codes))
"""

HEARS_LATER: Final = "mlcat-ingest: finished runs reach the catalog only with the scheduled run: "


@dataclass(frozen=True, slots=True)
class Trained:
    """What is seen of training: its status and output, what MLflow has of it, and its warnings."""

    run_id: str
    code: int
    output: str
    metrics: Mapping[str, float]
    warnings: Sequence[str]

    @property
    def seen(self) -> tuple[int, str, Mapping[str, float]]:
        """What has to be the same with a hook and without."""
        return self.code, self.output, self.metrics


def trains(bench: Bench, envs: Mapping[str, Mapping[str, str]]) -> dict[str, Trained]:
    """Train once with each environment, in processes that are forked from one."""
    command = [sys.executable, "-c", _TRAINS, json.dumps(envs)]
    codes = json.loads(ended(command, cwd=bench.folder, env=bench.env(), timeout=250).stdout)

    def message_of(name: str, ending: str) -> str:
        return (bench.folder / f"{name}.{ending}").read_text()

    with mlflow_client(bench.mlflow) as client:
        runs = {name: client.get_run(message_of(name, "id")) for name in envs}
    assert {one.info.status for one in runs.values()} == {"FINISHED"}
    return {
        name: Trained(
            run.info.run_id,
            codes[name],
            message_of(name, "out"),
            run.data.metrics,
            message_of(name, "err").splitlines(),
        )
        for name, run in runs.items()
    }
