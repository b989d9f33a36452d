"""A run's report as the catalog keeps it: a recipe is an ingestion source, its run a request.

The shape is that of DataHub's own command line, so that its Ingestion page lists our runs beside
its own. Of the recipe only the name and the types are written: the rest may be secret.

Source: `datahub_ingestion_run_summary_provider` of DataHub's SDK 1.7.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RateLimitedError,
)
from mlcat_ingest.metadata.aspects import (
    DATAHUB_EXECUTION_REQUEST_INPUT,
    DATAHUB_EXECUTION_REQUEST_RESULT,
    DATAHUB_INGESTION_SOURCE_INFO,
)
from mlcat_ingest.metadata.identity import ABOUT_MANY
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.report.render import as_data, as_text
from mlcat_ingest.pipeline.report.report import EXIT_OK, Report

MAX_TEXT: Final = 200_000
"""Characters of the report as text, and again of the report as data: a catalog limits aspects."""

EXAMPLES: Final = 3
"""Examples of a note that the report as data shows."""

WARNINGS: Final = frozenset(
    {
        *("column_defined_twice", "column_without_urn", "entity_unknown", "rule_does_not_fit"),
        "experiments_of_one_name",
        *("feature_ambiguous", "feature_unknown", "features_not_looked_up"),
        *("feature_file_unread", "feature_file_unreadable", "feature_metadata_unread"),
        *("source_unknown", "source_unreadable", "source_without_place", "source_without_urn"),
        *("groups_kept", "not_read_back", "removal_without_state", "test_results_not_stored"),
        *("nothing_listed", "unlisted_kept", "workspaces_unread", "name_reused"),
        *ABOUT_MANY,
        "removed_by_others",
        *("tag_left_out", "tag_without_urn", "training_job_invalid"),
    }
)
"""Notes that a person can act on. All others are information: warnings make a run amber."""

# What DataHub's pages know a run of the command line by.
_EXECUTOR: Final = "__datahub_cli_"
_TASK: Final = "CLI Ingestion"
_TRIGGER: Final = "CLI_INGESTION_SOURCE"
_REPORT_TYPE: Final = "CLI_INGEST"

_OUT_OF_REACH: Final = (
    AuthenticationError,
    CatalogUnavailableError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RateLimitedError,
)
"""Errors after which the catalog is not asked again."""


@dataclass(frozen=True, slots=True)
class RecipeListing:
    """How a recipe is listed: the types of its sources and of its sink, and who reads them."""

    sources: tuple[str, ...]
    sink: str
    version: str


def publish(report: Report, listing: RecipeListing, sink: Catalog) -> str | None:
    """Write `report` to the catalog; return why that was not possible, None where it was.

    Nothing is tried where the run ended because the catalog is out of reach, or was interrupted.

    Cost: one write request.
    """
    if report.interrupted or isinstance(report.error, _OUT_OF_REACH):
        return None
    try:
        refused = sink.write(list(proposals_of(report, listing)))
    except MlcatError as error:
        return str(error)
    return refused[0].reason if refused else None


def proposals_of(report: Report, listing: RecipeListing) -> Iterator[Proposal]:
    """Yield the recipe as an ingestion source, and this run of it."""
    source = source_urn(report.name)
    run = f"urn:li:dataHubExecutionRequest:{report.run_id}"
    types = ", ".join(dict.fromkeys(listing.sources))
    info: dict[str, Any] = {
        "name": f"[CLI] {types} [{report.name}]",
        "type": types,
        "config": {
            "recipe": json.dumps({"pipeline_name": report.name, "source": {"type": types}}),
            "version": listing.version,
            "executorId": _EXECUTOR,
        },
    }
    if len(set(listing.sources)) == 1:
        info["platform"] = f"urn:li:dataPlatform:{types}"
    yield Proposal(source, DATAHUB_INGESTION_SOURCE_INFO, info)
    asked = {
        "task": _TASK,
        "args": {"recipe": info["config"]["recipe"], "version": listing.version},
        "executorId": _EXECUTOR,
        "requestedAt": report.started_at_ms,
        "source": {"type": _TRIGGER, "ingestionSource": source},
    }
    yield Proposal(run, DATAHUB_EXECUTION_REQUEST_INPUT, asked)
    text = as_text(report)
    result = {
        "status": "SUCCESS" if report.exit_code == EXIT_OK else "FAILURE",
        "startTimeMs": report.started_at_ms,
        "durationMs": report.finished_at_ms - report.started_at_ms,
        # The beginning has the outcome.
        "report": text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 2]}\n…",
        "structuredReport": {
            "type": _REPORT_TYPE,
            "serializedValue": _as_json_text(report, listing),
            "contentType": "application/json",
        },
    }
    yield Proposal(run, DATAHUB_EXECUTION_REQUEST_RESULT, result)


def system_metadata(report: Report) -> dict[str, Any]:
    """Return the system metadata of each aspect that a run writes: its run, recipe and start.

    DataHub's pages show the time of the last sync only if a run is named. A rollback finds what a
    run wrote by this name, aspect by aspect, so that each has it: with the properties alone, the
    base would return without the entries that it is about.

    Source: `SystemMetadata.pdl`, `EntityServiceImpl.rollbackRun`.
    """
    return {
        "runId": report.run_id,
        "lastObserved": report.started_at_ms,
        "pipelineName": report.name,
    }


def source_urn(name: str) -> str:
    """Return the URN that the runs of the recipe `name` are listed under."""
    digest = hashlib.sha256(f"mlcat-ingest:{name}".encode()).hexdigest()[:32]
    return f"urn:li:dataHubIngestionSource:cli-{digest}"


def _as_json_text(report: Report, listing: RecipeListing) -> str:
    """Return the report as JSON text, in the sections of DataHub's; cut to its numbers if long."""
    entries = entries_of(report)
    data: dict[str, Any] = {
        "cli": {"cli_version": listing.version},
        "source": {
            "type": ", ".join(dict.fromkeys(listing.sources)),
            "report": {
                "events_produced": report.proposals_sent,
                "records": report.records,
                "failures": entries["failures"],
                "warnings": entries["unusable"] + entries["warnings"],
                "infos": entries["infos"],
            },
        },
        "sink": {
            "type": listing.sink,
            "report": {
                "total_records_written": report.proposals_sent,
                "failures": entries["losses"],
            },
        },
        "mlcat": as_data(report),
    }
    text = json.dumps(data)
    if len(text) > MAX_TEXT:
        del data["mlcat"]
        data["source"]["report"].update(failures=[], warnings=[], infos=[])
        data["sink"]["report"].update(failures=[])
        text = json.dumps(data)
    return text


def entries_of(report: Report) -> dict[str, list[dict[str, Any]]]:
    """Return what a report tells of: lists of entries, by a name each.

    `failures` are the error that ended the run, and the gate that it did not pass; `unusable` the
    first records that could not be used; `losses` the first entities that the catalog refused, and
    what it dropped; `warnings` the notes that a person can act on, and `infos` the others. Like all
    entries of DataHub's reports each has `title`, `message` and `context`, a list of texts.
    """
    failure, gate = report.failure, report.gate
    failures = [] if failure is None else [_entry(failure.kind, str(failure))]
    if gate is not None and not gate.passed:
        what = f"{gate.failing:,} failing, {gate.newly_failing:,} of them newly"
        why = "; ".join([what, *gate.not_evaluated])
        failures.append(_entry("metadata tests did not pass", why))
    notes = [
        (kind, _entry(kind, plural(count, "time"), report.note_examples.get(kind, ())[:EXAMPLES]))
        for kind, count in report.notes.items()
    ]
    unusable, refused = report.failed_examples, report.rejected_examples
    return {
        "failures": failures,
        "unusable": [_entry("not usable", one.reason, [one.reference]) for one in unusable],
        "losses": [
            *(_entry("refused by the catalog", one.reason, [one.reference]) for one in refused),
            *(
                _entry("dropped by the catalog", f"of {count:,}", [what])
                for what, count in report.dropped.items()
            ),
        ],
        "warnings": [entry for kind, entry in notes if kind in WARNINGS],
        "infos": [entry for kind, entry in notes if kind not in WARNINGS],
    }


def _entry(title: str, message: str, context: Sequence[str] = ()) -> dict[str, Any]:
    return {"title": title, "message": message, "context": list(context)}
