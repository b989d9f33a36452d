"""Airflow's listener: as a task begins, the runs that it will train are told which task it is.

Nothing is read or written outside the task's own process. Airflow logs an error of a listener and
goes on.
"""

import logging
import os
from typing import Any, Final

from airflow.listeners import hookimpl
from airflow.sdk import conf

from mlcat_ingest.airflow.training import CONTEXT, TrainingTags, run_tags

log = logging.getLogger(__name__)

_CONTEXT: Final = TrainingTags(os.environ)


@hookimpl
def on_task_instance_running(previous_state: Any, task_instance: Any) -> None:
    """Let MLflow runs of this process, and of those that it starts, name the task and DAG run."""
    del previous_state
    tags = run_tags(
        task_instance,
        conf.get("mlcat", "cluster", fallback="prod"),
        conf.get("mlcat", "platform_instance", fallback=""),
        task_instance.log_url if conf.get("api", "base_url", fallback="") else "",
    )
    if not _CONTEXT.replace(tags):
        log.warning("%s is no JSON object, so MLflow runs of this task will not name it", CONTEXT)
