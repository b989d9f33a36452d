"""Jobs that train models; standard library only, for a scheduler loads it with each task."""

from mlcat_ingest.metadata.urn import build


def airflow_job(dag_id: str, task_id: str, cluster: str, instance: str = "") -> str:
    """Return the URN of a task, as DataHub's plugin for Airflow names it.

    Raises:
        InvalidUrnError: it would be too long.
    """
    flow = f"{instance}.{dag_id}" if instance else dag_id
    return build("dataJob", build("dataFlow", "airflow", flow, cluster), task_id)
