"""Forms of a report: text for people, JSON for programs, Prometheus metrics.

The metrics are for the textfile collector of node_exporter. Every series names its recipe, so that
the files of several recipes can be in one directory. All are gauges of the last run; only the time
of the last success is older where that run failed.
Source: Prometheus' text-based exposition format, version 0.0.4.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, Final

from mlcat_ingest.core.text import plural
from mlcat_ingest.metadata.labels import with_label
from mlcat_ingest.pipeline.report.report import (
    EXIT_OK,
    UNSEEN,
    EntityCounts,
    HooksSummary,
    Report,
    Verdict,
)

_SUMS: Final = ("passing", "failing", "newly_failing")
_DERIVED: Final = {
    "finished": "exit_code",
    "finished_at_ms": "duration_s",
    "failed_examples": "rejected",
}
"""Properties of a report that are in its data, by the field before them."""
_SENTENCES: Final = {
    "dataset_unresolved": (
        "dataset without an address is not linked",
        "datasets without an address are not linked",
    ),
    "feature_unknown": (
        "feature name is in no feature table",
        "feature names are in no feature table",
    ),
    "feature_ambiguous": (
        "feature name is in several feature tables",
        "feature names are in several feature tables",
    ),
}
"""Notes that are a line of their topic: their words for one and for several."""


def as_text(report: Report, *, cause: bool = True) -> str:
    """Return the report as plain lines, the outcome first.

    Without `cause` the error of a failed run is left out: the caller prints it.
    """
    return "\n".join(
        [
            _headline(report, cause=cause),
            *(part.line for part in report.passes),
            *_entities(report),
            *_counters(report),
            *_lineage(report),
            *_features(report),
            *_evaluation(report),
            *gate_lines(report.gate),
            *_hooks(report.hooks),
            *note_lines(report, report.notes.keys() - _SENTENCES),
            *_examples("not usable", report.failed_records, report.failed_examples),
            *_examples("refused", report.rejected, report.rejected_examples),
            *_counters(report, by_label=True),
            *_end(report),
        ]
    )


def retraction_text(report: Report) -> str:
    """Return the report of a retraction as plain lines, without the error: the caller prints it."""
    took = f"after {report.duration_s:.1f} s"
    if report.interrupted or report.failure is not None:
        how = "interrupted" if report.interrupted else "failed"
        head = f"{report.name}: {how} {took}; the counted changes were retracted"
    elif report.rejected:
        head = f"{report.name}: finished {took}, but not everything was retracted"
    else:
        head = f"{report.name}: everything was retracted {took}"
    width = _width(report)
    return "\n".join(
        [
            head,
            *(
                f"  {kind:<{width}} {counts.updated:,} updated, {counts.removed:,} removed, "
                f"{counts.unchanged:,} unchanged, {counts.rejected:,} refused"
                for kind, counts in report.entities.items()
            ),
            *findings(report),
            *_end(report),
        ]
    )


def findings(report: Report) -> Iterator[str]:
    """Yield the lines about counters, notes, failed records and refused entities."""
    yield from _counters(report)
    yield from note_lines(report, report.notes.keys() - _SENTENCES)
    yield from _examples("not usable", report.failed_records, report.failed_examples)
    yield from _examples("refused", report.rejected, report.rejected_examples)


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as JSON data; keys are the report's own field names."""
    data: dict[str, Any] = {}
    for name, value in asdict(replace(report, error=None)).items():
        data[name] = value
        if name in _DERIVED:
            data[_DERIVED[name]] = getattr(report, _DERIVED[name])
    del data["error"]
    if not report.finished:
        data["exit_code"] = None
    data["features"] = {"models": report.features.models, **data["features"]}
    data["gate"] = None if report.gate is None else gate_data(report.gate)
    return data


def as_json(report: Report) -> str:
    """Return the report as indented JSON, ending in a line break."""
    return json.dumps(as_data(report), indent=2, ensure_ascii=False) + "\n"


def _headline(report: Report, *, cause: bool) -> str:
    took = f"after {report.duration_s:.1f} s"
    wrote = any(counts.written for counts in report.entities.values())
    written = "the counted writes were acknowledged" if wrote else "nothing was acknowledged"
    if report.interrupted:
        return f"{report.name}: interrupted {took}; {written}"
    if report.failure is not None:
        what = f": {report.failure}" if cause else f"; {written}"
        return f"{report.name}: failed {took}{what}"
    if report.failed_records or report.rejected or report.dropped:
        return f"{report.name}: finished {took}, but not everything arrived"
    if report.hooks is not None and report.hooks.exit_code != EXIT_OK:
        return f"{report.name}: finished {took}, but the drain of run hooks was not complete"
    what = "everything" if UNSEEN.isdisjoint(report.notes) else "everything that was listed"
    if report.gate is not None and not report.gate.passed:
        return f"{report.name}: {what} arrived {took}, but metadata tests did not pass"
    return f"{report.name}: {what} arrived {took}"


def _width(report: Report) -> int:
    return max([12, *map(len, report.entities)])


def _entities(report: Report) -> Iterator[str]:
    where = f" → {report.catalog}" if report.catalog else ""
    yield f"  records      {report.records:,} read{where}"
    width = _width(report)
    for kind, counts in report.entities.items():
        line = (
            f"  {kind:<{width}} {counts.created:,} created, {counts.updated:,} updated, "
            f"{counts.unchanged:,} unchanged"
        )
        line += f", {counts.removed:,} removed" if counts.removed else ""
        line += f", {counts.still_removed:,} still removed" if counts.still_removed else ""
        line += f", {left_out(counts)}" if counts.left_out else ""
        yield f"{line}, {counts.rejected:,} refused" if counts.rejected else line
    yield f"  proposals    {report.proposals_sent:,} sent"


def left_out(counts: EntityCounts) -> str:
    """Return how many entities were left out, and why."""
    return f"{counts.left_out:,} left out (only in the trash, or described by others)"


def _counters(report: Report, *, by_label: bool = False) -> Iterator[str]:
    for _, shown, numbers in report.counters():
        if "text" in shown and ("label" in shown) == by_label:
            nouns = shown.get("nouns")
            for value, number in numbers.items():
                if number:
                    count = plural(number, *nouns) if nouns else f"{number:,}"
                    yield f"  {shown['text'].format(count=count, value=value)}"


def _lineage(report: Report) -> Iterator[str]:
    lineage = report.lineage
    if lineage.datasets:
        what = "datasets of models are in the catalog"
        more = "; more were not looked up" if lineage.beyond else ""
        yield f"  lineage      {lineage.in_catalog:,} of {lineage.datasets:,} {what}{more}"
    if lineage.not_checked is not None:
        yield f"  lineage      not checked: {lineage.not_checked}"
    for dataset in lineage.dangling:
        nearest = f"; nearest: {', '.join(dataset.nearest)}" if dataset.nearest else ""
        models = "model" if dataset.models == 1 else "models"
        yield f"    missing: {dataset.urn}, used by {dataset.models:,} {models}{nearest}"
    further = lineage.datasets - lineage.in_catalog - len(lineage.dangling)
    if lineage.dangling and further > 0:
        yield f"    … and {further:,} more"
    yield from _sentence(report, "lineage", "dataset_unresolved")


def _sentence(report: Report, topic: str, kind: str) -> Iterator[str]:
    """Yield the line about the notes of a kind, with the first of them."""
    if count := report.notes.get(kind, 0):
        more = f" and {count - 1:,} more" if count > 1 else ""
        first = "".join(map(_detail, report.note_examples.get(kind, ())[:1]))
        yield f"  {topic:<12} {plural(count, *_SENTENCES[kind])}: {first}{more}"


def _detail(example: str) -> str:
    """Return the detail of a note, and the label of the entity that it is about."""
    about, _, detail = example.partition(": ")
    urn, _, label = about.partition(" ")
    return f"{detail} of {label or urn}"


def _features(report: Report) -> Iterator[str]:
    features = report.features
    if features.linked:
        rules = ", ".join(f"{count:,} by {rule}" for rule, count in features.linked.items())
        about = f"; {features.approximate:,} approximately" if features.approximate else ""
        models = "model" if features.models == 1 else "models"
        yield f"  features     {features.models:,} {models} linked ({rules}){about}"
    yield from _sentence(report, "features", "feature_unknown")
    yield from _sentence(report, "features", "feature_ambiguous")
    if features.not_looked_up:
        yield f"  features     {features.not_looked_up:,} not looked up: their links do not change"


def _evaluation(report: Report) -> Iterator[str]:
    tests = report.evaluation
    if tests.evaluated or tests.not_evaluated is None:
        by = "" if tests.where is None else f" by the {tests.where}"
        results = f": {plural(tests.passing, 'result')} passing, {tests.failing:,} failing"
        yield (
            f"  tests        {plural(tests.evaluated, 'entity', 'entities')} evaluated{by}"
            f"{results if tests.evaluated else ''}"
        )
    if tests.not_evaluated is not None:
        yield f"  tests        not evaluated: {tests.not_evaluated}"
    for urn, count in tests.failing_tests.items():
        yield f"    {urn} fails on {count:,}"
    for urn, reason in tests.unevaluated_tests.items():
        yield f"    {urn} not evaluated: {reason}"


def gate_lines(verdict: Verdict | None) -> Iterator[str]:
    """Yield the lines of a verdict, none where there is no gate."""
    if verdict is None:
        return
    still = verdict.failing - verdict.newly_failing
    yield (
        f"  gate         {'passed' if verdict.passed else 'failed'}: "
        f"{verdict.newly_failing:,} newly failing, {still:,} still failing, "
        f"{verdict.passing:,} passing, of the tests that match {verdict.pattern!r}"
    )
    for reason in verdict.not_evaluated:
        yield f"    not evaluated: {reason}"
    labels = {test.urn: test.label for test in verdict.tests}
    for failed in verdict.examples:
        word = "newly failing" if failed.newly else "still failing"
        entity = with_label(failed.entity, failed.name)
        yield f"    {word}: {entity}: {labels.get(failed.test, failed.test)}"
    if verdict.failing > len(verdict.examples):
        yield f"    … and {verdict.failing - len(verdict.examples):,} more"


def gate_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON data, its sums beside its fields."""
    sums = {name: getattr(verdict, name) for name in _SUMS}
    return {"passed": verdict.passed, **sums, **asdict(verdict)}


def _hooks(drain: HooksSummary | None) -> Iterator[str]:
    if drain is None:
        return
    yield f"  hooks        {hooks_line(drain)}"
    if drain.failure is not None:
        yield f"    {drain.failure}"
    if drain.dead_letter_file is not None:
        yield f"    refused: see {drain.dead_letter_file}"


def hooks_line(drain: HooksSummary) -> str:
    """Return the result of a drain, in a line."""
    if drain.busy:
        return "another drain of this spool is in progress"
    elsewhere = f", {drain.elsewhere:,} of the runs of other recipes" if drain.elsewhere else ""
    events, named = plural(drain.events, "event"), plural(drain.runs, "run")
    if drain.models:
        named = f"{named} and {plural(drain.models, 'registered model')}"
    return f"processed {events} of {named}{elsewhere}; {drain.left:,} remaining"


def note_lines(report: Report, kinds: Container[str]) -> Iterator[str]:
    """Yield the lines about notes of some kinds."""
    for kind, count in report.notes.items():
        if kind in kinds:
            yield f"  note         {kind}: {count:,}"
            for example in report.note_examples.get(kind, ())[:3]:
                yield f"    {example}"


def _end(report: Report) -> Iterator[str]:
    if report.dead_letter_file is not None:
        yield f"  dead letters {report.dead_letters:,} in {report.dead_letter_file}"
    source, catalog = report.source_requests, report.catalog_requests
    yield f"  requests     {source:,} to the source, {catalog:,} to the catalog"


def _examples(what: str, count: int, examples: tuple[Any, ...]) -> Iterator[str]:
    if not count:
        return
    yield f"  {what:<12} {count:,}"
    for example in examples:
        yield f"    {example.reference}: {example.reason}"
    if count > len(examples):
        yield f"    … and {count - len(examples):,} more"


PREFIX: Final = "mlcat_ingest_"
LAST_SUCCESS: Final = f"{PREFIX}last_success_timestamp_seconds"

_Family = tuple[str, str, Sequence[tuple[Mapping[str, str], float]]]
"""Name and help text of a metric, and its numbers, each with its labels."""
_OUTCOMES: Final = tuple(one.name for one in fields(EntityCounts) if one.name != "read")


def as_prometheus(report: Report, before: str = "") -> str:
    """Return the metrics of `report`; `before` is the text of the file of the last run."""
    lines: list[str] = []
    for name, help_text, samples in _families(report, before):
        metric = f"{PREFIX}{name}"
        lines += f"# HELP {metric} {help_text}", f"# TYPE {metric} gauge"
        for labels, value in samples:
            lines.append(f"{_series(metric, {'recipe': report.name, **labels})} {float(value)!r}")
    return "".join(f"{line}\n" for line in lines)


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


def _families(report: Report, before: str) -> Iterator[_Family]:
    finished_s = report.finished_at_ms / 1000
    last_success_s = finished_s if report.arrived else _last_success(before, report.name)
    yield "up", "Whether everything arrived in the last run.", [({}, report.arrived)]
    yield "exit_code", "Exit status of the last run.", [({}, report.exit_code)]
    yield "last_run_timestamp_seconds", "End of the last run.", [({}, finished_s)]
    if last_success_s is not None:
        help_text = "End of the last run in which everything arrived."
        yield LAST_SUCCESS.removeprefix(PREFIX), help_text, [({}, last_success_s)]
    yield "duration_seconds", "Wall time of the last run.", [({}, report.duration_s)]
    for name, shown, numbers in report.counters():
        if "help_text" in shown:
            labels = [shown["label"]] if "label" in shown else []
            counts = [(dict.fromkeys(labels, value), count) for value, count in numbers.items()]
            yield shown.get("metric", name), shown["help_text"], counts
    entities = [
        ({"type": kind, "outcome": outcome}, getattr(counts, outcome))
        for kind, counts in report.entities.items()
        for outcome in _OUTCOMES
    ]
    yield "entities", "Entities by type and outcome.", entities
    requests = {"source": report.source_requests, "catalog": report.catalog_requests}
    sides = [({"side": side}, count) for side, count in requests.items()]
    yield "requests", "Requests sent, retries included.", sides
    yield from _of_tests(report)
    # The age of the data in the catalog, for each place that is read.
    current = [
        ({"source": place.source, "instance": place.instance}, place.current_at_ms / 1000)
        for place in report.passes
        if place.current_at_ms is not None
    ]
    help_text = "Time up to which the catalog matches the source: start of the last complete pass."
    yield "current_timestamp_seconds", help_text, current
    help_text = "Lag of the catalog behind the source at the end of the run."
    yield "lag_seconds", help_text, [(place, finished_s - at_s) for place, at_s in current]


def _of_tests(report: Report) -> Iterator[_Family]:
    tests, gate = report.evaluation, report.gate
    help_text = "Entities whose metadata tests were evaluated."
    yield "evaluated_entities", help_text, [({}, tests.evaluated)]
    results = [({"outcome": outcome}, getattr(tests, outcome)) for outcome in _SUMS[:2]]
    yield "test_results", "Results of metadata tests.", results
    help_text = "Whether the evaluation failed or was incomplete."
    yield "evaluation_stopped", help_text, [({}, tests.not_evaluated is not None)]
    if gate is not None:
        yield "gate_passed", "Whether --fail-on-tests passed.", [({}, gate.passed)]
        help_text = "Last known results of the tests that match --fail-on-tests."
        sums = [({"outcome": outcome}, getattr(gate, outcome)) for outcome in _SUMS]
        yield "gate_results", help_text, sums


def _series(metric: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{metric}{{{pairs}}}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
