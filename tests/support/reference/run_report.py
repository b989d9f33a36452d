"""The report of a run: its exit statuses, keys and metrics, from the code that makes them."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from mlcat_ingest.pipeline.report import report
from mlcat_ingest.pipeline.report.prometheus import LAST_SUCCESS, as_prometheus
from mlcat_ingest.pipeline.report.render import as_data
from mlcat_ingest.pipeline.report.report import (
    COUNTERS,
    DanglingDataset,
    EntityCounts,
    EvaluationSummary,
    FailedRecord,
    FailedTest,
    Failure,
    FeatureSummary,
    HooksSummary,
    LineageSummary,
    PassSummary,
    Report,
    TestVerdict,
    Verdict,
)
from support.reference.blocks import Page
from support.reference.docstrings import attribute_docstrings
from support.reference.markdown import inline, paragraph, table

FULL: Final = Report(
    name="churn",
    started_at_ms=1,
    finished_at_ms=2,
    passes=(PassSummary("mlflow", full=True, why="first run", current_at_ms=1),),
    entities={"mlModel": EntityCounts()},
    dropped={"mlModel: aspect": 1},
    dead_letter_file="dead.jsonl",
    failed_examples=(FailedRecord("run", "reason"),),
    rejected_examples=(FailedRecord("run", "reason"),),
    lineage=LineageSummary(dangling=(DanglingDataset("urn", 1),), not_checked="reason"),
    features=FeatureSummary({"tag": 1}),
    evaluation=EvaluationSummary(where="client", not_evaluated="reason"),
    gate=Verdict(
        "x", (TestVerdict("t", "n"),), examples=(FailedTest("e", "t", newly=True, name="n"),)
    ),
    hooks=HooksSummary(failure=Failure("E", "message", "hint"), dead_letter_file="refused.jsonl"),
    failure=Failure("E", "message", "hint"),
)
"""A report in which every key has a value."""

_JSON: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "text",
    dict: "mapping",
    list: "list",
    tuple: "list",
    type(None): "null",
}


def statuses(argument: str, page: Page) -> str:
    """Return the table of exit statuses."""
    del argument, page
    meanings = attribute_docstrings(inspect.getsource(report))
    rows = [
        (str(value), inline(meanings[name]))
        for name, value in vars(report).items()
        if name.startswith("EXIT_")
    ]
    return table(("status", "meaning"), rows)


def report_keys(path: str, page: Page) -> str:
    """Return the table of what is at a place of the JSON report, such as `gate.tests`."""
    thing, data = _at(path)
    optional = {one.name for one in fields(thing) if "None" in str(one.type)}
    rows = []
    for key, value in data.items():
        below = page.headings.get(f"{path}.{key}".lstrip("."))
        word = f"[{_word(value)}](#{below.anchor})" if below else _word(value)
        null = " or null" if key in optional else ""
        rows.append((f"`{key}`", f"{word}{null}", inline(_meaning(thing, key))))
    about = inspect.getdoc(type(thing)) or ""
    return "\n\n".join([paragraph(inline(about)), table(("key", "type", "meaning"), rows)])


def places(value: Any = FULL, path: str = "") -> Iterator[str]:
    """Yield the place of each mapping of the report with keys of its own."""
    yield path
    for one in fields(value):
        below = _first(getattr(value, one.name))
        if is_dataclass(below):
            yield from places(below, f"{path}.{one.name}".lstrip("."))


def _at(path: str) -> tuple[Any, dict[str, Any]]:
    """Return the object at a place, and its data."""
    thing, data = FULL, as_data(replace(FULL))
    for step in filter(None, path.split(".")):
        thing, data = _first(getattr(thing, step)), _first(data[step])
    return thing, data


def _first(value: Any) -> Any:
    """Return the first entry of a collection, and what is none as it is."""
    if isinstance(value, dict) and value and not is_dataclass(value):
        first = next(iter(value.values()))
        return first if is_dataclass(first) or isinstance(first, dict) else value
    return value[0] if isinstance(value, tuple | list) and value else value


def _word(value: Any) -> str:
    return _JSON[type(value)]


def _meaning(thing: Any, key: str) -> str:
    """Return the docstring of a field or a property, or the help of the counter."""
    kind = type(thing)
    source = inspect.getsource(inspect.getmodule(kind) or report)
    text = attribute_docstrings(source, kind.__name__).get(key)
    if text is None and kind is Report and key in COUNTERS:
        text = COUNTERS[key].get("help_text")
    return text or inspect.getdoc(getattr(kind, key)) or ""


def metrics(argument: str, page: Page) -> str:
    """Return the table of metrics, from the file of a report that has every one."""
    del argument, page
    text = as_prometheus(FULL, f'{LAST_SUCCESS}{{recipe="{FULL.name}"}} 1.0\n')
    rows = []
    for name, meaning in re.findall(r"(?m)^# HELP (\S+) (.*)$", text):
        kind = re.findall(rf"(?m)^# TYPE {name} (\w+)$", text)[0]
        samples = re.findall(rf"(?m)^{name}{{(.*?)}} ", text)
        labels = dict.fromkeys(
            label for sample in samples for label in re.findall(r'(\w+)="', sample)
        )
        del labels["recipe"]
        shown = ", ".join(f"`{one}`" for one in labels)
        rows.append((f"`{name}`", kind, shown, inline(meaning)))
    return table(("metric", "type", "labels", "meaning"), rows)
