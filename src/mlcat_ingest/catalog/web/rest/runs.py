"""`/runs`: what was written under which run id, and taking it back.

Source: DataHub's Rest.li `/runs` resource, as `datahub ingest list-runs`, `show` and `rollback` of
its command line call it.
"""

from collections.abc import Sequence
from typing import Any

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import RunRow
from mlcat_ingest.catalog.store.rollback import plan_rollback, roll_back
from mlcat_ingest.catalog.store.runs import describe_run, list_runs
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import flag, json_object, page_of, required
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    OBJECT,
    TEXT,
    WHOLE,
    Endpoint,
    action,
    array,
    record,
    value_of,
)
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of


class IngestionRuns:
    """The endpoints of `/runs`."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read and write `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        run = record("runId", runId=TEXT, rows=WHOLE, timestamp=WHOLE)
        row = record("urn", "aspectName", urn=TEXT, aspectName=TEXT, runId=TEXT, timestamp=WHOLE)
        outcome = record(
            *("aspectRowSummaries", "entitiesAffected", "aspectsReverted"),
            aspectRowSummaries=array(row),
            entitiesAffected=WHOLE,
            aspectsReverted=WHOLE,
            aspectsAffected=WHOLE,
            unsafeEntitiesCount=WHOLE,
            unsafeEntities=array(OBJECT),
        )
        return (
            action(
                *("/runs", "list", self.page),
                client="CLI ingest list-runs",
                reads=True,
                body=record(pageOffset=WHOLE, pageSize=WHOLE, includeSoft=FLAG),
                returns=value_of(array(run)),
            ),
            action(
                *("/runs", "describe", self.describe),
                client="CLI ingest show",
                reads=True,
                body=record(
                    "runId",
                    runId=TEXT,
                    start=WHOLE,
                    count=WHOLE,
                    includeSoft=FLAG,
                    includeAspect=FLAG,
                ),
                returns=value_of(array(row)),
            ),
            action(
                *("/runs", "rollback", self.rollback),
                client="CLI ingest rollback",
                body=record("runId", runId=TEXT, dryRun=FLAG, safe=FLAG, hardDelete=FLAG),
                returns=value_of(outcome),
            ),
        )

    def page(self, call: Call) -> dict[str, Any]:
        """Read a page of the runs, the one that wrote last first."""
        params = json_object(call.json())
        names = ("pageOffset", "pageSize")
        start, count = page_of(params, self._limits, count=100, names=names)
        soft = flag(params, "includeSoft")
        runs = self._store.read(
            lambda connection: list_runs(connection, start, count, include_removed=soft)
        )
        return {
            "value": [
                {"runId": run.run_id, "rows": run.rows, "timestamp": run.timestamp_ms}
                for run in runs
            ]
        }

    def describe(self, call: Call) -> dict[str, Any]:
        """Read a page of what a run wrote, with the aspects that are still so where asked to."""
        params = json_object(call.json())
        run_id = required(params, "runId")
        start, count = page_of(params, self._limits, count=100)
        soft = flag(params, "includeSoft")
        rows = self._store.read(
            lambda connection: describe_run(connection, run_id, start, count, include_removed=soft)
        )
        shown = [_shown(row, run_id) for row in rows]
        if flag(params, "includeAspect"):
            names = {row.aspect for row in rows}
            held = self._store.get_many(list({row.urn for row in rows}), names)
            for row, summary in zip(rows, shown, strict=True):
                stored = held.get(row.urn, {}).get(row.aspect)
                if row.current and stored is not None:
                    summary["aspect"] = {"value": stored.value}
        return {"value": shown}

    def rollback(self, call: Call) -> dict[str, Any]:
        """Take back what a run wrote and nobody wrote over, or only say what that would be."""
        params = json_object(call.json())
        run_id = required(params, "runId")
        if flag(params, "dryRun"):
            outcome = self._store.read(lambda connection: plan_rollback(connection, run_id))
        else:
            outcome = roll_back(self._store, run_id)
        return {
            "value": {
                "aspectRowSummaries": [_shown(row, run_id) for row in outcome.rows],
                "entitiesAffected": outcome.deleted_entities,
                "aspectsReverted": outcome.reverted + outcome.events,
                # What others wrote to the same entities is neither hidden nor deleted.
                "aspectsAffected": 0,
                "unsafeEntitiesCount": 0,
                "unsafeEntities": [],
            }
        }


def _shown(row: RunRow, run_id: str) -> dict[str, Any]:
    return {
        "runId": run_id,
        "urn": row.urn,
        "aspectName": row.aspect,
        "timestamp": row.timestamp_ms,
        "version": row.version,
        "keyAspect": row.aspect == key_aspect_name(entity_type_of(row.urn)),
    }
