"""A whole Airflow on the loopback interface: API server, DAG processor, scheduler and workers.

Its metadata are in PostgreSQL. Every process is the leader of a session of its own, by which all
that it starts is found and ended.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import requests

from support.airflow_home import DATABASE, Airflow, make_airflow
from support.ports import port_to_keep
from support.services import REDIS, postgres_database, redis_prefix

WAIT_S = 600
STEP_S = 1
_BROKER = "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Process:
    """One of Airflow's components; its process id is that of its session, too."""

    name: str
    popen: "subprocess.Popen[bytes]"
    log: Path

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def members(self) -> set[int]:
        """Return the ids of all processes of its session: tasks have groups of their own."""
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == self.popen.pid and state != "Z":
                found.add(int(stat.parent.name))
        return found

    def kill(self) -> None:
        """End it and all that it started at once."""
        while left := self.members():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self.popen.wait()


@dataclass(slots=True)
class AirflowService:
    """A running Airflow that answers at `url`, everybody being its administrator."""

    airflow: Airflow
    url: str
    processes: list[Process] = field(default_factory=list)
    session: requests.Session = field(default_factory=requests.Session)

    @contextmanager
    def running(self, name: str, *command: str, **env: str) -> Iterator[Process]:
        """Run a component, one of Airflow's own commands, until the block ends."""
        log = self.airflow.home / f"{name}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [str(self.airflow.venv.python), "-m", "airflow", *command],
                env=self.airflow.env(**env),
                cwd=self.airflow.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(name, popen, log)
        self.processes.append(process)
        try:
            yield process
        finally:
            self.kill(process)

    def kill(self, process: Process) -> None:
        """End a component and its tasks at once, as if their machine had lost power."""
        process.kill()
        if process in self.processes:
            self.processes.remove(process)

    def scheduler(self, executor: str, **env: str) -> AbstractContextManager[Process]:
        """Run a scheduler with `executor`; tasks of `LocalExecutor` are in its environment."""
        env["AIRFLOW__CORE__EXECUTOR"] = executor
        return self.running("scheduler", "scheduler", "--skip-serve-logs", **env)

    def worker(self, name: str, slots: int, **env: str) -> AbstractContextManager[Process]:
        """Run a worker of Celery, which does as many tasks at a time as it has `slots`."""
        return self.running(
            name,
            *("celery", "worker", "--concurrency", str(slots), "--celery-hostname", f"{name}@%h"),
            *("--pid", str(self.airflow.home / f"{name}.pid"), "--skip-serve-logs"),
            *("--without-mingle", "--without-gossip"),
            **env,
        )

    def call(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """Ask Airflow's public API, and return its reply."""
        answer = self.session.request(
            method, f"{self.url}{path}", json=body or None, timeout=WAIT_S
        )
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}\n{self.logs()}"
        found: dict[str, Any] = answer.json()
        return found

    def until(self, what: str, look: Callable[[], T | None]) -> T:
        """Return what `look` finds once it finds something; fail with all logs if it never does."""
        deadline = time.monotonic() + WAIT_S
        while (found := look()) is None or found is False:
            ended = [one.name for one in self.processes if one.popen.poll() is not None]
            assert not ended, f"waiting for {what}: {ended} ended\n{self.logs()}"
            assert time.monotonic() < deadline, f"no {what} in {WAIT_S} s\n{self.logs()}"
            time.sleep(STEP_S)
        return found

    def logs(self) -> str:
        """Return what every component printed, and the logs of tasks."""
        home = self.airflow.home
        logs = [(one.name, one.output()[-20_000:]) for one in self.processes]
        logs.extend(
            (str(path.relative_to(home)), path.read_text(errors="replace")[-4_000:])
            for path in sorted((home / "logs").rglob("task_id=*/**/*.log"))
        )
        return "\n".join(f"--- {name}\n{text}" for name, text in logs)

    def switch_on(self, dag_id: str) -> None:
        """Let the scheduler run a DAG, once it knows it."""
        self.until(f"DAG {dag_id}", lambda: dag_id in self._dags() or None)
        self.call("PATCH", f"/api/v2/dags/{dag_id}", is_paused=False)

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run of a DAG, and return its id."""
        made = self.call(
            "POST", f"/api/v2/dags/{dag_id}/dagRuns", logical_date=None, conf=dict(conf)
        )
        return str(made["dag_run_id"])

    def scheduled(self, dag_id: str) -> str:
        """Return the id of the run that the scheduler makes of a DAG that is switched on."""
        path = f"/api/v2/dags/{dag_id}/dagRuns?run_type=scheduled"
        found = self.until(f"run of {dag_id}", lambda: self.call("GET", path)["dag_runs"] or None)
        return str(found[0]["dag_run_id"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
        found: list[dict[str, Any]] = self.call("GET", path)["task_instances"]
        return found

    def ended(self, dag_id: str, run_id: str) -> str:
        """Wait for the end of a run, and return its state."""

        def state() -> str | None:
            run = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")
            return str(run["state"]) if run["state"] in {"success", "failed"} else None

        return self.until(f"end of {dag_id} {run_id}", state)

    def log_in(self) -> None:
        """Wait until the API server serves, and get a token."""
        self.until("API server", self._serves)
        answer = self.session.get(f"{self.url}/auth/token", timeout=WAIT_S)
        assert answer.ok, f"{answer.status_code} {answer.text}\n{self.logs()}"
        self.session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def _serves(self) -> bool:
        try:
            return self.session.get(f"{self.url}/api/v2/version", timeout=WAIT_S).ok
        except requests.ConnectionError:
            return False

    def _dags(self) -> set[str]:
        errors = self.call("GET", "/api/v2/importErrors")["import_errors"]
        assert not errors, errors
        return {one["dag_id"] for one in self.call("GET", "/api/v2/dags")["dags"]}


@contextmanager
def airflow_service(folder: Path, **settings: str) -> Iterator[AirflowService]:
    """Run an API server and a DAG processor, on a database of their own, until the block ends.

    DAGs are only run within `AirflowService.running` of a scheduler. `settings` are variables of
    the environment of every process.
    """
    port = port_to_keep()
    url = f"http://127.0.0.1:{port}"
    with postgres_database() as database:
        airflow = make_airflow(
            folder,
            **{
                DATABASE: database,
                "AIRFLOW__API__BASE_URL": url,
                "AIRFLOW__API__SECRET_KEY": "of every process of the test",
                "AIRFLOW__API_AUTH__JWT_SECRET": "of every process of the test, and long enough",
                "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
                "AIRFLOW__CORE__PARALLELISM": "4",
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
                # A busy machine is slow now and then; that is no failure of a task.
                "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
                "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "30",
                **settings,
            },
        )
        service = AirflowService(airflow, url)
        service.session.trust_env = False
        listening = ("--host", "127.0.0.1", "--port", str(port), "--workers", "1")
        with (
            service.session,
            service.running("api-server", "api-server", *listening),
            service.running("dag-processor", "dag-processor"),
        ):
            service.log_in()
            yield service


@contextmanager
def celery(airflow: Airflow) -> Iterator[dict[str, str]]:
    """Give the settings of workers and of the scheduler of `airflow`, which share tasks by Redis.

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
