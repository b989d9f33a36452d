#!/usr/bin/env python3
"""Replay requests whose answers were recorded on DataHub's server, and list what a catalog answers.

A line of `answers-*.jsonl` is a scenario: its name and its steps, in order. A step has `id`,
`path`, `method` (else POST with a body and GET without), `headers`, one body of `json`, `raw`
(text), `raw_b64` (bytes) or `big` (`json`, in which `BIGBIG` becomes `n` letters), and `answer`.
`RRUNR` is a run's own id, which makes its URNs fresh. `wait` was for the search index of the
recorded server, and is not slept.

`expected_differences.toml` lists what differs on purpose, and the endpoints that the embedded
catalog does not have: steps that call one are left out.
"""

import argparse
import base64
import json
import re
import sys
import tomllib
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

FOLDER: Final = Path(__file__).parent
RUN_ID: Final = "RRUNR"
VOLATILE: Final = frozenset(
    {
        "telemetryQueueSpanId",
        "telemetryEnqueueSpanId",
        "telemetryLog",
        "schemaVersion",
        "traceId",
        "pipelineName",
        "runId",
        "lastRunId",
        "scrollId",
        "nextScrollId",
        "requestId",
        "timestamp",
        "took",
    }
)
"""Keys whose values differ from one answer to the next; only null is compared."""
UNORDERED: Final = frozenset({"searchResults", "relationships", "facets", "aggregations"})
"""Keys of lists whose order is the engine's, unless the request asks for one."""
DROPPED: Final = frozenset({"stackTrace", "exceptionClass", "trace", "telemetryTraceId"})
LONG_ERROR_CHARS: Final = 240
LONG_TEXT_CHARS: Final = 2000


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a normalised body; status 0 is a connection without an answer."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One request and its recorded answer; `name` is unique, scenario included."""

    name: str
    request: dict[str, Any]
    recorded: Answer


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which an answer is not the recorded one.

    `place` is a path in the body, `status`, or `error text` for the sentence of an error.
    """

    step: str
    place: str
    recorded: object
    found: object

    def __str__(self) -> str:
        recorded, found = (json.dumps(value)[:300] for value in (self.recorded, self.found))
        return f"{self.step} {self.place}\n  recorded {recorded}\n  found    {found}"


@dataclass(frozen=True, slots=True)
class Expected:
    """A line of the table: patterns of step and place that match as a whole, and the reason."""

    step: str
    place: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Return whether this line names the difference."""
        return bool(
            re.fullmatch(self.step, difference.step) and re.fullmatch(self.place, difference.place)
        )


@dataclass(frozen=True, slots=True)
class Absent:
    """An endpoint that the embedded catalog does not have: method, pattern of the path, reason."""

    method: str
    path: str
    reason: str

    def covers(self, request: dict[str, Any]) -> bool:
        """Return whether the request calls this endpoint."""
        return method_of(request) == self.method and bool(re.fullmatch(self.path, request["path"]))


@dataclass(frozen=True, slots=True)
class Result:
    """What a replay found: answers, those that are equal, and differences by whether listed.

    `stale` lines of the table name no difference, or no recorded step.
    """

    answers: int
    equal: int
    unexpected: tuple[Difference, ...]
    expected: tuple[Difference, ...]
    stale: tuple[Expected | Absent, ...]


def read_table() -> tuple[list[Expected], list[Absent]]:
    """Return the lines of the table: differences, and endpoints that are not there."""
    table = tomllib.loads((FOLDER / "expected_differences.toml").read_text())
    absent = [Absent(*line) for line in table.pop("absent")]
    return [Expected(*line) for section in table.values() for line in section], absent


def method_of(request: dict[str, Any]) -> str:
    """Return the HTTP method of a recorded request."""
    has_body = not {"json", "raw", "raw_b64", "big"}.isdisjoint(request)
    return request.get("method") or ("POST" if has_body else "GET")


def recorded_scenarios(only: str = "") -> Iterator[list[Step]]:
    """Yield the steps of each scenario that has a step whose name holds the pattern."""
    for path in sorted(FOLDER.glob("answers-*.jsonl")):
        for line in path.read_text().splitlines():
            scenario = json.loads(line)
            repeated: Counter[str] = Counter()
            steps = []
            for step in scenario["steps"]:
                repeated[step["id"]] += 1
                number = repeated[step["id"]]
                name = f"{scenario['scenario']}/{step['id']}" + (f"#{number}" * (number > 1))
                steps.append(
                    Step(name, step, Answer(step["answer"]["status"], step["answer"]["body"]))
                )
            if any(re.search(only, step.name) for step in steps):
                yield steps


def replay(url: str, only: str = "") -> Result:
    """Send every scenario, and compare each answer with the recorded one.

    Cost: about 1,700 requests, one after the other.
    """
    lines, absent = read_table()
    used: set[Expected | Absent] = set()
    answers = equal = 0
    unexpected: list[Difference] = []
    expected: list[Difference] = []
    with requests.Session() as session:
        for steps in recorded_scenarios(only):
            run = f"r{uuid.uuid4().hex[:7]}"
            for step in steps:
                if left_out := [line for line in absent if line.covers(step.request)]:
                    used.update(left_out)
                    continue
                answers += 1
                found = list(differences(step, answer_of(session, url, step.request, run)))
                equal += not found
                for difference in found:
                    covering = [line for line in lines if line.covers(difference)]
                    used.update(covering)
                    (expected if covering else unexpected).append(difference)
    listed: list[Expected | Absent] = [] if only else [*lines, *absent]
    stale = tuple(line for line in listed if line not in used)
    return Result(answers, equal, tuple(unexpected), tuple(expected), stale)


def answer_of(session: requests.Session, url: str, request: dict[str, Any], run: str) -> Answer:
    """Send one request, and return the normalised answer."""
    body = _body(request, run)
    headers = {"X-RestLi-Protocol-Version": "2.0.0", **_filled(request.get("headers") or {}, run)}
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    method = request.get("method") or ("GET" if body is None else "POST")
    try:
        reply = session.request(
            method, url + _filled(request["path"], run), data=body, headers=headers, timeout=60
        )
    except requests.RequestException as error:
        return Answer(0, str(error)[:200])
    text = reply.content.decode("utf-8", "replace")
    try:
        parsed = normalise(json.loads(text)) if text.strip() else ""
    except ValueError:
        parsed = {"<text>": text[:LONG_TEXT_CHARS]}
    return Answer(reply.status_code, json.loads(json.dumps(parsed).replace(run, RUN_ID)))


def _body(request: dict[str, Any], run: str) -> bytes | None:
    """Return the body of a request, as it is sent."""
    if "raw_b64" in request:
        return base64.b64decode(request["raw_b64"]).replace(RUN_ID.encode(), run.encode())
    if "raw" in request:
        return str(_filled(request["raw"], run)).encode("utf-8", "surrogatepass")
    if "big" in request:
        text = json.dumps(_filled(request["big"]["json"], run))
        return text.replace("BIGBIG", "x" * request["big"]["n"]).encode()
    return json.dumps(_filled(request["json"], run)).encode() if "json" in request else None


def _filled(value: Any, run: str) -> Any:
    """Return a value with the id of this run in its texts."""
    if isinstance(value, str):
        return value.replace(RUN_ID, run)
    if isinstance(value, dict):
        return {_filled(key, run): _filled(item, run) for key, item in value.items()}
    return [_filled(item, run) for item in value] if isinstance(value, list) else value


def normalise(value: Any, key: str = "") -> Any:
    """Return a value without times, ids and stack traces, and with JSON inside texts parsed."""
    if isinstance(value, dict):
        return {
            name: ("<volatile>" if item is not None else None)
            if name in VOLATILE
            else normalise(item, name)
            for name, item in _without_stamps(value).items()
            if name not in DROPPED
        }
    if isinstance(value, list):
        return [normalise(item, key) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return "<ms>" if re.fullmatch(r"1[4-9]\d{11}", str(value)) else value
    return _normalised_text(value, key) if isinstance(value, str) else value


def _without_stamps(value: dict[str, Any]) -> dict[str, Any]:
    """Return an aspect in its envelope without when and by which run it was written."""
    stamped = isinstance(value.get("systemMetadata"), dict) and (
        "value" in value or "name" in value
    )
    if not stamped:
        return value
    replaced: dict[str, Any] = {
        "systemMetadata": {"version": value["systemMetadata"].get("version")}
    }
    replaced.update({name: "<stamp>" for name in ("created", "auditStamp") if name in value})
    return {**value, **replaced}


def _normalised_text(text: str, key: str) -> Any:
    if text[:1] in ("{", "["):
        try:
            return {"<json text>": normalise(json.loads(text))}
        except ValueError:
            pass
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?", "<iso>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"\b1[4-9]\d{11}\b", "<ms>", text)
    if key in ("message", "error") and len(text) > LONG_ERROR_CHARS:
        at = text.rfind("msg=")
        return f"{text[:80]} … {text[at : at + 200] if at > 0 else text[-140:]}"
    return text if len(text) <= LONG_TEXT_CHARS else f"{text[:200]}…({len(text)})"


def differences(step: Step, found: Answer) -> Iterator[Difference]:
    """Yield each difference; a refusal equals a 500 that the server gave for a client's mistake.

    So does an error of GraphQL with that code.
    """
    recorded = step.recorded
    if recorded.status >= 500 and 400 <= found.status < 500 and found.body:
        return
    if recorded.status != found.status:
        yield Difference(
            step.name,
            "status",
            [recorded.status, recorded.body],
            [found.status, found.body],
        )
        return
    error = found.status >= 400
    is_sorted = "sortCriteri" in json.dumps(step.request)
    theirs, ours = (body if is_sorted else _sorted(body) for body in (recorded.body, found.body))
    for path, wanted, value in _unequal(theirs, ours, ""):
        if path.endswith((".extensions.code", ".extensions.type")) and _is_refusal(wanted, value):
            continue
        sentence = re.search(r"\.(message|error)$", path) and (error or ".errors" in path)
        yield Difference(step.name, "error text" if sentence else path, wanted, value)


def _is_refusal(recorded: object, found: object) -> bool:
    """Return whether GraphQL refuses as a client's mistake what was the server's own fault."""
    return (recorded, found) in ((500, 400), ("SERVER_ERROR", "BAD_REQUEST"))


def _sorted(value: Any, key: str = "") -> Any:
    """Return a body with the lists in order that have none of their own."""
    if isinstance(value, dict):
        return {name: _sorted(item, name) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [_sorted(item, key) for item in value]
    if key in UNORDERED:
        items.sort(key=lambda item: json.dumps(item, sort_keys=True))
    return items


def _unequal(recorded: Any, found: Any, path: str) -> Iterator[tuple[str, object, object]]:
    """Yield path, recorded and found value of what is unequal."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in sorted({*recorded, *found}):
            if key in recorded and key in found:
                yield from _unequal(recorded[key], found[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}", recorded.get(key, "<absent>"), found.get(key, "<absent>")
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for index, (theirs, ours) in enumerate(zip(recorded, found, strict=True)):
            yield from _unequal(theirs, ours, f"{path}[{index}]")
    elif recorded != found or isinstance(recorded, bool) != isinstance(found, bool):
        yield path or ".", recorded, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the catalog at an address, and return 1 if it differs where the table does not say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="address of the catalog; it is written to")
    parser.add_argument("--only", default="", help="pattern of scenario/step")
    parser.add_argument("--show", type=int, default=20, help="number of differences to print")
    parser.add_argument("--place", default="", help="pattern of status, error text or a path")
    parser.add_argument("--all", action="store_true", help="also show expected differences")
    options = parser.parse_args(arguments)
    result = replay(options.url.rstrip("/"), options.only)
    listed = [*result.unexpected, *(result.expected if options.all else ())]
    chosen = [
        difference
        for difference in listed
        if re.search(options.place, difference.place) and re.search(options.only, difference.step)
    ]
    for difference in chosen[: options.show]:
        print(difference)
    for line in result.stale:
        print(f"covers nothing: {line}")
    print(
        f"{result.answers} answers, {result.equal} equal; differences: "
        f"{len(result.expected)} expected, {len(result.unexpected)} not"
    )
    return 1 if result.unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
