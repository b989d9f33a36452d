"""Airflow's listener: tags that tie an MLflow run to the task that trains it.

As a task begins, the listener sets `MLFLOW_RUN_CONTEXT` in the task's own process. The variable is
MLflow's: a JSON object whose entries become tags of each run that `mlflow.start_run` or autologging
starts. Processes that the task starts inherit it, so training may be in another interpreter and
needs nothing of ours. Airflow logs an error of a listener and continues.

Source: `SystemEnvironmentContext` of MLflow, 2.22 and 3.17.
"""

import json
import logging
import os
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from mlcat_ingest.metadata.naming import airflow_job
from mlcat_ingest.metadata.reserved import TRAINING_JOB_TAG

log = logging.getLogger(__name__)

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
        self._environ = environ
        self._tags: Mapping[str, str] = {}

    def replace(self, tags: Mapping[str, str]) -> bool:
        """Set `tags` in place of those that were set before; False if others' text is not JSON.

        A task has a process of its own, but for tests of a DAG, which run one after another.
        """
        try:
            context = json.loads(self._environ.get(CONTEXT) or "{}")
        except ValueError:
            return False
        if not isinstance(context, dict):
            return False
        others = {key: value for key, value in context.items() if self._tags.get(key) != value}
        self._environ[CONTEXT] = json.dumps({**tags, **others})
        self._tags = dict(tags)
        return True


_TRAINING_TAGS: Final = TrainingTags(os.environ)


def on_task_instance_running(previous_state: Any, task_instance: Any) -> None:
    """Let MLflow runs of this process, and of those that it starts, name the task and DAG run."""
    from mlcat_ingest.airflow.sdk import conf

    del previous_state
    tags = run_tags(
        task_instance,
        conf.get("mlcat", "cluster", fallback="prod"),
        conf.get("mlcat", "platform_instance", fallback=""),
        task_instance.log_url if conf.get("api", "base_url", fallback="") else "",
    )
    if not _TRAINING_TAGS.replace(tags):
        log.warning(
            "%s is not a JSON object; MLflow runs of this task get no tags of the task", CONTEXT
        )
