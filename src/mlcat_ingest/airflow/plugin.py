"""The plugin that Airflow loads in each of its processes: it has a listener if one is asked for."""

import logging
from typing import Any, ClassVar

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from mlcat_ingest.core.environment import SWITCH, is_on

log = logging.getLogger(__name__)


def _listeners() -> list[Any]:
    try:
        from mlcat_ingest.airflow.sdk import conf
    except ImportError as error:
        log.warning("%s", error)
        return []
    # Not `getboolean`, which raises: a slip of the pen must not stop any task.
    on = is_on(conf.get("mlcat", "listener", fallback=""))
    if on is None:
        log.warning("AIRFLOW__MLCAT__LISTENER ([mlcat] listener) is %s", SWITCH)
    if not on:
        return []
    from mlcat_ingest.airflow import listener

    hookimpl(listener.on_task_instance_running)
    return [listener]


class MlcatPlugin(AirflowPlugin):
    """Ties MLflow runs to the tasks that train them, where `[mlcat] listener` is on."""

    name = "mlcat"
    listeners: ClassVar[list[Any]] = _listeners()
