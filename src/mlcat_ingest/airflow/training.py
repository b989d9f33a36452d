"""What ties an MLflow run to the task that trained it: tags, which MLflow puts on every run.

`MLFLOW_RUN_CONTEXT` is MLflow's own: a JSON object whose entries become tags of each run that
`mlflow.start_run` or autologging starts. Processes that a task starts inherit it, so training may
be in another interpreter and need nothing of ours. Source: `SystemEnvironmentContext` of MLflow,
2.22 and 3.17.
"""

import json
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from mlcat_ingest.metadata.jobs import airflow_job
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG

CONTEXT: Final = "MLFLOW_RUN_CONTEXT"


def run_tags(task: Any, cluster: str, instance: str = "", url: str = "") -> dict[str, str]:
    """Return the tags of runs that a task instance trains; `url` is its page.

    Raises:
        InvalidUrnError: the names of the task are too long for a URN.
    """
    tags = {
        TRAINING_JOB_TAG: airflow_job(task.dag_id, task.task_id, cluster, instance),
        "airflow.dag_id": task.dag_id,
        "airflow.dag_run_id": task.run_id,
        "airflow.task_id": task.task_id,
        "airflow.try_number": str(task.try_number),
    }
    if task.map_index is not None and task.map_index >= 0:
        tags["airflow.map_index"] = str(task.map_index)
    if url:
        tags["airflow.url"] = url
    return tags


class TrainingTags:
    """The tags that new runs get in one environment; entries that others put there stay."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Have set nothing."""
        self._environ = environ
        self._ours: Mapping[str, str] = {}

    def replace(self, tags: Mapping[str, str]) -> bool:
        """Set `tags` in place of those that were set before; False if others' text is not JSON.

        A task has a process of its own, but for tests of a DAG, which run one after another.
        """
        try:
            found = json.loads(self._environ.get(CONTEXT) or "{}")
        except ValueError:
            return False
        if not isinstance(found, dict):
            return False
        theirs = {key: value for key, value in found.items() if self._ours.get(key) != value}
        self._environ[CONTEXT] = json.dumps({**tags, **theirs})
        self._ours = dict(tags)
        return True
