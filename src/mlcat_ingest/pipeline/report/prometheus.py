"""A report as Prometheus metrics, in the form that the textfile collector of node_exporter reads.

Source: Prometheus' text-based exposition format, version 0.0.4.

Every series names its recipe, so that the files of several recipes can be in one directory. All
are gauges of the last run; only the time of the last success is older where that run failed.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from mlcat_ingest.pipeline.report.report import Report

PREFIX: Final = "mlcat_ingest_"
LAST_SUCCESS: Final = f"{PREFIX}last_success_timestamp_seconds"

_Labels = Mapping[str, str]
_OUTCOMES: Final = ("created", "updated", "removed", "unchanged", "left_out", "rejected")


def as_prometheus(report: Report, before: str = "") -> str:
    """Return the metrics of `report`; `before` is the text of the file of the last run."""
    last_success_s = (
        report.finished_at_ms / 1000 if report.arrived else _last_success(before, report.name)
    )
    return "".join(_families(report, last_success_s))


def _last_success(text: str, recipe: str) -> float | None:
    """Return the time of the last success in the text of an earlier file, if it is there."""
    series = f"{_series(LAST_SUCCESS, {'recipe': recipe})} "
    for line in text.split("\n"):
        if line.startswith(series):
            try:
                return float(line.removeprefix(series))
            except ValueError:
                return None  # half of a file
    return None


def _families(report: Report, last_success_s: float | None) -> Iterator[str]:
    def gauge(name: str, help_text: str, value: float) -> str:
        return _family(report.name, name, help_text, ({}, value))

    finished_s = report.finished_at_ms / 1000
    yield gauge("up", "Whether everything arrived in the last run.", report.arrived)
    yield gauge("exit_code", "Exit status of the last run.", report.exit_code)
    yield gauge("last_run_timestamp_seconds", "End of the last run.", finished_s)
    if last_success_s is not None:
        help_text = "End of the last run in which everything arrived."
        yield gauge("last_success_timestamp_seconds", help_text, last_success_s)
    yield gauge("duration_seconds", "Wall time of the last run.", report.duration_s)
    yield from _of_counters(report)
    yield from _of_entities(report)
    yield _family(
        report.name,
        "requests",
        "Requests sent, retries included.",
        ({"side": "source"}, report.source_requests),
        ({"side": "catalog"}, report.catalog_requests),
    )
    yield from _of_tests(report)
    yield from _of_parts(report)


def _of_counters(report: Report) -> Iterator[str]:
    for name, shown, numbers in report.counters():
        if "help_text" in shown:
            labels = [shown["label"]] if "label" in shown else []
            samples = ((dict.fromkeys(labels, value), count) for value, count in numbers.items())
            yield _family(report.name, shown.get("metric", name), shown["help_text"], *samples)


def _of_entities(report: Report) -> Iterator[str]:
    yield _family(
        report.name,
        "entities",
        "Entities by type and outcome.",
        *(
            ({"type": kind, "outcome": outcome}, getattr(counts, outcome))
            for kind, counts in report.entities.items()
            for outcome in _OUTCOMES
        ),
    )


def _of_tests(report: Report) -> Iterator[str]:
    tests, gate, family = report.evaluation, report.gate, partial(_family, report.name)
    help_text = "Entities whose metadata tests were evaluated."
    yield family("evaluated_entities", help_text, ({}, tests.evaluated))
    yield family(
        "test_results",
        "Results of metadata tests.",
        ({"outcome": "passing"}, tests.passing),
        ({"outcome": "failing"}, tests.failing),
    )
    help_text = "Whether the evaluation failed or was incomplete."
    yield family("evaluation_stopped", help_text, ({}, tests.not_evaluated is not None))
    if gate is not None:
        yield family("gate_passed", "Whether --fail-on-tests passed.", ({}, gate.passed))
        yield family(
            "gate_results",
            "Last known results of the tests that match --fail-on-tests.",
            ({"outcome": "passing"}, gate.passing),
            ({"outcome": "failing"}, gate.failing),
            ({"outcome": "newly_failing"}, gate.newly_failing),
        )


def _of_parts(report: Report) -> Iterator[str]:
    """Yield the age of the data in the catalog, for each place that is read."""
    finished = [
        ({"source": place.source, "instance": place.instance}, place.current_at_ms / 1000)
        for place in report.passes
        if place.current_at_ms is not None
    ]
    yield _family(
        report.name,
        "current_timestamp_seconds",
        "Time up to which the catalog matches the source: start of the last complete pass.",
        *finished,
    )
    yield _family(
        report.name,
        "lag_seconds",
        "Lag of the catalog behind the source at the end of the run.",
        *((labels, report.finished_at_ms / 1000 - at_s) for labels, at_s in finished),
    )


def _family(recipe: str, name: str, help_text: str, *samples: tuple[_Labels, float]) -> str:
    metric = f"{PREFIX}{name}"
    lines = [f"# HELP {metric} {help_text}", f"# TYPE {metric} gauge"]
    for labels, value in samples:
        lines.append(f"{_series(metric, {'recipe': recipe, **labels})} {float(value)!r}")
    return "".join(f"{line}\n" for line in lines)


def _series(metric: str, labels: _Labels) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{metric}{{{pairs}}}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
