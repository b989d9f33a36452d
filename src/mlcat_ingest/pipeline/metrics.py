"""A report as Prometheus metrics, in the form that the textfile collector of node_exporter reads.

Every series names its recipe, so that the files of several recipes stand beside each other. All
are gauges of the last run; only the time of the last success is older where that run failed.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client.core import CollectorRegistry, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from mlcat_ingest.pipeline.report import Report

PREFIX: Final = "mlcat_ingest_"
LAST_SUCCESS: Final = f"{PREFIX}last_success_timestamp_seconds"

_Labels = Mapping[str, str]
_OUTCOMES: Final = ("created", "updated", "removed", "unchanged", "rejected")


def as_prometheus(report: Report, before: str = "") -> str:
    """Return the metrics of `report`; `before` is what the file said of the run before."""
    last_success_s = (
        report.finished_at_ms / 1000 if report.arrived else _last_success(before, report.name)
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(_families(report, last_success_s))))
    return generate_latest(registry).decode()


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _last_success(text: str, recipe: str) -> float | None:
    """Return when a run last succeeded, as an earlier file has it; None where it does not say."""
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == LAST_SUCCESS and sample.labels.get("recipe") == recipe:
                    return sample.value
    except ValueError:
        return None  # somebody else's file, or half of one
    return None


def _families(report: Report, last_success_s: float | None) -> Iterator[Metric]:
    def one(name: str, help_text: str, value: float) -> Metric:
        return _family(report.name, name, help_text, ({}, value))

    finished_s = report.finished_at_ms / 1000
    yield one("up", "Whether everything arrived in the last run.", report.arrived)
    yield one("exit_code", "Exit status of the last run.", report.exit_code)
    yield one("last_run_timestamp_seconds", "When the last run ended.", finished_s)
    if last_success_s is not None:
        help_text = "When a run last ended with everything arrived."
        yield one("last_success_timestamp_seconds", help_text, last_success_s)
    yield one("duration_seconds", "Wall time of the last run.", report.duration_s)
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


def _of_counters(report: Report) -> Iterator[Metric]:
    for name, shown, numbers in report.counters():
        if "help_text" in shown:
            labels = [shown["label"]] if "label" in shown else []
            samples = ((dict.fromkeys(labels, value), count) for value, count in numbers.items())
            yield _family(report.name, shown.get("metric", name), shown["help_text"], *samples)


def _of_entities(report: Report) -> Iterator[Metric]:
    yield _family(
        report.name,
        "entities",
        "Entities by type and what became of them.",
        *(
            ({"type": kind, "outcome": outcome}, getattr(counts, outcome))
            for kind, counts in report.entities.items()
            for outcome in _OUTCOMES
        ),
    )


def _of_tests(report: Report) -> Iterator[Metric]:
    tests, gate, family = report.evaluation, report.gate, partial(_family, report.name)
    help_text = "Entities whose metadata tests were evaluated."
    yield family("evaluated_entities", help_text, ({}, tests.evaluated))
    yield family(
        "test_results",
        "Results of metadata tests.",
        ({"outcome": "passing"}, tests.passing),
        ({"outcome": "failing"}, tests.failing),
    )
    help_text = "Whether nothing, or nothing more, could be evaluated."
    yield family("evaluation_stopped", help_text, ({}, tests.not_evaluated is not None))
    if gate is not None:
        yield family("gate_passed", "Whether --fail-on-tests passed.", ({}, gate.passed))
        yield family(
            "gate_results",
            "Last known results of the tests that --fail-on-tests names.",
            ({"outcome": "passing"}, gate.passing),
            ({"outcome": "failing"}, gate.failing),
            ({"outcome": "newly_failing"}, gate.newly_failing),
        )


def _of_parts(report: Report) -> Iterator[Metric]:
    """Yield how old is what the catalog says of each place that is read."""
    finished = [
        ({"source": one.source, "instance": one.instance}, one.current_at_ms / 1000)
        for one in report.passes
        if one.current_at_ms is not None
    ]
    yield _family(
        report.name,
        "current_timestamp_seconds",
        "Up to when the catalog has what the source says: the start of the last whole pass.",
        *finished,
    )
    yield _family(
        report.name,
        "lag_seconds",
        "How far the catalog was behind the source when the run ended.",
        *((labels, report.finished_at_ms / 1000 - at_s) for labels, at_s in finished),
    )


def _family(recipe: str, name: str, help_text: str, *samples: tuple[_Labels, float]) -> Metric:
    names = list(samples[0][0]) if samples else []
    made = GaugeMetricFamily(f"{PREFIX}{name}", help_text, labels=["recipe", *names])
    for labels, value in samples:
        made.add_metric([recipe, *labels.values()], float(value))
    return made
