"""Traces of runs, and assessments of them, over MLflow's REST interface."""

from typing import Any

import requests

_SOURCE = {"source_type": "HUMAN", "source_id": "ada"}


def _post(url: str, path: str, body: Any) -> Any:
    reply = requests.post(f"{url}/api/3.0/mlflow/{path}", json=body, timeout=30)
    assert reply.ok, reply.text
    return reply.json()


def start_trace(url: str, experiment_id: str, number: int, run_id: str) -> None:
    """Record a trace in a run; its id is made of `number`."""
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
    info = {
        "trace_id": f"tr-{number:032x}",
        "trace_location": place,
        "request_time": "2026-01-01T00:00:00Z",
        "state": "OK",
        "trace_metadata": {"mlflow.sourceRun": run_id},
    }
    _post(url, "traces", {"trace": {"trace_info": info}})


def judge(
    url: str,
    trace: int,
    name: str,
    value: Any,
    metadata: Any = None,
    *,
    overrides: str = "",
    kind: str = "feedback",
) -> str:
    """Log an assessment on a trace, and return its id."""
    assessment = {
        "assessment_name": name,
        "source": _SOURCE,
        kind: {"value": value},
        "metadata": metadata or {},
        **({"overrides": overrides} if overrides else {}),
    }
    made = _post(url, f"traces/tr-{trace:032x}/assessments", {"assessment": assessment})
    return str(made["assessment"]["assessment_id"])
