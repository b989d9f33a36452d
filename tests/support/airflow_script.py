"""Runs DAGs inside Airflow's own venv: `airflow_script.py FOLDER STEPS`; the last line is JSON.

Each step is [dag id, params, environment]; see `support.airflow_home`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from airflow.dag_processing.dagbag import DagBag
from airflow.models.asset import AssetEvent
from airflow.models.xcom import XComModel
from airflow.providers_manager import ProvidersManager
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.listener import get_listener_manager
from airflow.utils.session import create_session
from sqlalchemy import select

from mlcat_ingest import errors
from mlcat_ingest.airflow.assets import group_asset
from mlcat_ingest.airflow.operator import (
    MlcatDrainOperator,
    MlcatFinishOperator,
    MlcatIngestOperator,
    MlcatPlanOperator,
    dag_schedule,
    dag_settings,
)
from mlcat_ingest.hooks.spool import Event, EventSpool
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report import progress
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.fakes import FakeSink, FakeSource
from support.recipes import a_recipe


def main(folder: str, steps: list[tuple[str, dict[str, Any], dict[str, str]]]) -> dict[str, Any]:
    # Runs of tests are shorter than the time between two lines.
    progress.PLAIN_INTERVAL_S = 0.0  # type: ignore[misc]
    bag = DagBag(dag_folder=folder)
    out: dict[str, Any] = {
        "import_errors": bag.import_errors,
        "found": {
            "dags": sorted(bag.dags),
            **_provider(),
            "retries": _retries(),
            "schedules": {text: _schedule(text) for text in ("", "@once", "None")},
            "killed": _killed(),
            "drained_inline": _drained_inline(),
            "killed_early": [_killed_early(*one) for one in OPERATORS],
            "asset": group_asset("urn:li:mlModelGroup:(urn:li:x,Größe,PROD)").name,
        },
        "runs": [],
    }
    for dag_id, conf, env in steps:
        os.environ.update(env)
        dag = DagBag(dag_folder=folder).dags[dag_id]
        run = dag.test(run_conf=conf)
        out["runs"].append(_reported(run))
    return out


OPERATORS: list[tuple[type, dict[str, Any]]] = [
    (MlcatIngestOperator, {}),
    (MlcatPlanOperator, {}),
    (MlcatFinishOperator, {"shards": [], "reports": []}),
    (MlcatDrainOperator, {"spool": "none"}),
]


NOWHERE = "http://127.0.0.1:9"
RECIPE = {
    "name": "killed",
    "source": {"type": "mlflow", "config": {"tracking_uri": NOWHERE}},
    "sink": {"type": "rest", "config": {"server": NOWHERE}},
}


def _drained_inline() -> list[Any]:
    """Drain an event of a recipe file with a recipe that is given as a mapping."""
    warning = mock.patch("mlcat_ingest.airflow.operator.log.warning")
    with TemporaryDirectory() as folder, warning as warned:
        EventSpool(Path(folder)).put(Event("r1", "FINISHED", NOWHERE, recipe="/etc/team.yml"))
        operator = MlcatDrainOperator(task_id="inline", recipe=RECIPE, spool=folder)
        return [operator.execute({}), warned.call_args.args[1]]


def _killed_early(kind: type, options: dict[str, Any]) -> str:
    """Send SIGTERM before a recipe is run, with the handler that Airflow's task runner has."""
    operator = kind(task_id="killed", recipe=RECIPE, **options)
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        operator.execute({})
    except AirflowException as error:
        return str(error)
    finally:
        signal.signal(signal.SIGTERM, before)
    return "done"


def _reported(run: Any) -> dict[str, Any]:
    with create_session() as session:
        found = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id)).all()
        xcoms = [
            [one.task_id, one.map_index, one.key, XComModel.deserialize_value(one)] for one in found
        ]
        published = session.scalars(
            select(AssetEvent).where(AssetEvent.source_run_id == run.run_id).order_by(AssetEvent.id)
        ).all()
        events = [[one.source_task_id, one.name, one.extra] for one in published]
    return {
        "state": str(run.state),
        "tasks": [
            [one.task_id, one.map_index, str(one.state), one.try_number, one.rendered_map_index]
            for one in sorted(run.get_task_instances(), key=lambda i: (i.task_id, i.map_index))
        ],
        "xcoms": xcoms,
        "events": events,
    }


def _provider() -> dict[str, Any]:
    manager = ProvidersManager()
    widgets = manager.connection_form_widgets
    return {
        "connection": "mlcat" in manager.hooks,
        "fields": sorted(name for name in widgets if "mlcat" in name),
        "listeners": [one.__name__ for one in get_listener_manager().pm.get_plugins()],
        "links": [name for name in manager.extra_links_class_names if "mlcat" in name],
    }


def _schedule(text: str) -> str:
    """Return the kind of schedule that the DAGs have by a variable; others are empty."""
    with mock.patch.dict(os.environ, {"MLCAT_SCHEDULE": text, "MLCAT_RETRY_DELAY_S": ""}):
        return type(DAG("settings", schedule=dag_schedule(), **dag_settings()).timetable).__name__


def _retries() -> dict[str, str]:
    some = (errors.RecipeError, errors.LimitError, errors.NotAuthorizedError)
    later = (errors.SourceUnavailableError, errors.CatalogUnavailableError)
    return {kind.__name__: _raised(kind) for kind in (*some, *later)}


def _raised(kind: type[errors.MlcatError]) -> str:
    """Return the name of the error that a task ends with whose work raises `kind`."""
    operator = MlcatIngestOperator(task_id="failing", recipe={})
    with mock.patch.object(operator, "_execute", side_effect=kind("x")):
        try:
            operator.execute({})
        except (errors.MlcatError, AirflowException) as error:
            return type(error).__name__
    return "none"


def _killed() -> list[str]:
    """Send SIGTERM to a run, with the handler that Airflow's own task runner has."""
    operator = MlcatIngestOperator(task_id="killed", recipe={})
    reported, sink = [], FakeSink()
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

    def pages() -> Iterator[list[Entity]]:
        for number in range(2_000):
            if number == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            yield [Entity(f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{number},PROD)", {})]

    try:
        run = PipelineRun([FakeSource(pages())], sink, RunOptions(a_recipe("killed")))
        operator._summary(operator._until_killed(run.execute))
    except AirflowException as error:
        reported.append(str(error))
    finally:
        signal.signal(signal.SIGTERM, before)
    return [*reported, f"closed {sink.closed}"]


if __name__ == "__main__":
    reported = main(sys.argv[1], json.loads(sys.argv[2]))
    sys.stdout.write(f"\n{json.dumps(reported, default=str)}\n")
