"""What Airflow's processes need to know to share tasks by Celery: Redis carries its messages."""

from collections.abc import Iterator
from contextlib import contextmanager

from support.airflow_home import Airflow
from support.services import REDIS, redis_prefix

_BROKER = "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS"


@contextmanager
def celery(airflow: Airflow) -> Iterator[dict[str, str]]:
    """Give the settings of workers and of the scheduler of `airflow`.

    A worker that is silent for long is taken for lost, and its task is done anew. Time enough for
    one that is only slow.
    """
    database = airflow.settings["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    with redis_prefix() as prefix:
        yield {
            "AIRFLOW__CELERY__BROKER_URL": REDIS,
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
            f"{_BROKER}__GLOBAL_KEYPREFIX": prefix,
            # What a worker received and did not end is given to another one, too.
            f"{_BROKER}__VISIBILITY_TIMEOUT": "30",
            f"{_BROKER}__UNACKED_RESTORE_INTERVAL": "5",
            f"{_BROKER}__UNACKED_RESTORE_THROTTLE": "1",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
        }
