"""Probes: the facts about a DataHub server that runs rely on, each tried on probe entities.

A fact is declared once, in `PROBES` if it can be tried from outside, else in `UNTRIED`; text, JSON
and `docs/reference/check.md` have their rows from here. Numbers name the facts in the matrix.

Source: the sources of the DataHub server, v0.13 to v1.7.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mlcat_ingest.client import probe_searches as searches
from mlcat_ingest.client import probe_trials as trials
from mlcat_ingest.client.behaviour import (
    CONDITIONS,
    EVALUATION,
    MODEL_ASPECTS,
    OTHER_ASPECTS,
    ProbeAnswer,
)
from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.probe_entities import (
    INDEX_PATIENCE_S,
    ProbeEntities,
    ProbeNotPossibleError,
)
from mlcat_ingest.client.probe_trials import Observation
from mlcat_ingest.core.findings import Finding, ProbeOutcome, ProbeResult
from mlcat_ingest.errors import MlcatError, NotAuthorizedError, RetryableError

log = logging.getLogger(__name__)

_NO_ANSWER: Final = "the service stopped answering"


@dataclass(frozen=True, slots=True)
class Probe:
    """One fact that is tried.

    Attributes:
        fact: its number.
        name: its subject, a noun phrase.
        trial: what is tried.
        expected: the answer of a DataHub server.
        consequence: the effect on runs where the answer is another one.
        embedded: the answer of the embedded catalog, where it differs by choice.
    """

    fact: str
    name: str
    trial: Callable[[ProbeEntities], Observation]
    expected: ProbeAnswer
    consequence: str
    embedded: ProbeAnswer | None = None


_REPAIRS: Final = "a run finds lost updates in the version history and restores them"
_WAITS: Final = "a run waits longer before it merges a conflict again"
_READS_BACK: Final = "a run reads samples back, and reports what was dropped"
_LEFT_OUT: Final = "a run with these answers skips them, and reports them as dropped"
_BY_STATE: Final = "a run takes the entities of the recipe from its state"

PROBES: Final = (
    Probe(*CONDITIONS, trials.conflict, ProbeAnswer.CONFLICT, _REPAIRS),
    Probe(
        "G2",
        "isLatest in a proposal",
        trials.latest_in_a_proposal,
        ProbeAnswer.REFUSED,
        "the service does not compute the latest version; use v1.1 or later",
    ),
    Probe(
        "G3",
        "version label used twice",
        searches.label_twice,
        ProbeAnswer.REFUSED,
        "a registered model that was deleted and created again has two versions of one number",
    ),
    Probe(
        "G4",
        "versions in a search",
        searches.older_versions_in_searches,
        ProbeAnswer.LATEST_UNLESS_ASKED,
        "none: a run requests all versions",
    ),
    Probe(
        "G5",
        "unknown aspect",
        trials.unknown_aspect,
        ProbeAnswer.DROPPED,
        "a run counts refused proposals as rejected",
        embedded=ProbeAnswer.REFUSED,
    ),
    Probe(
        "G5",
        "unknown field",
        trials.unknown_field,
        ProbeAnswer.DROPPED,
        "a run counts refused proposals as rejected",
        embedded=ProbeAnswer.STORED,
    ),
    Probe(*MODEL_ASPECTS, trials.aspects_of_models, ProbeAnswer.STORED, _LEFT_OUT),
    Probe(
        *OTHER_ASPECTS,
        trials.aspects_of_groups_and_tables,
        ProbeAnswer.STORED,
        _LEFT_OUT,
    ),
    Probe(
        *EVALUATION,
        trials.evaluation,
        ProbeAnswer.MISSING,
        "if the call exists, the service evaluates the tests of a run",
        embedded=ProbeAnswer.THERE,
    ),
    Probe(
        "G7",
        "version of a new aspect",
        trials.first_version,
        ProbeAnswer.NUMBERED,
        "first changes are written without a condition, and counted as unverified",
    ),
    Probe(
        "G8",
        "custom property of 5,000 characters",
        searches.long_property,
        ProbeAnswer.NOT_FOUND,
        "none: a run searches by short values only",
        embedded=ProbeAnswer.FOUND,
    ),
    Probe(
        "G9",
        "relationships behind the 10,000th",
        searches.relationship_window,
        ProbeAnswer.REFUSED,
        "none: a run uses the scroll for these pages",
        embedded=ProbeAnswer.TAKEN,
    ),
    Probe(
        "G9",
        "scroll of relationships",
        searches.relationship_scroll,
        ProbeAnswer.FOUND,
        "groups of more than 10,000 members are listed incompletely",
        embedded=ProbeAnswer.MISSING,
    ),
    Probe(
        "G10",
        "history of a deleted aspect",
        trials.history_of_deleted_aspect,
        ProbeAnswer.DELETED,
        "none: a run reads no history of deleted aspects",
        embedded=ProbeAnswer.KEPT,
    ),
    Probe("G11", "search after a write", searches.search_lag, ProbeAnswer.FOUND, _BY_STATE),
    Probe(
        "G12",
        "status of an unknown task",
        trials.task_status,
        ProbeAnswer.NOT_FOUND,
        "the command `task` cannot detect the end of a task",
    ),
    Probe(
        "G13",
        "URN of more than 512 bytes",
        trials.long_urn,
        ProbeAnswer.DROPPED,
        "none: a run shortens names before it writes",
        embedded=ProbeAnswer.REFUSED,
    ),
    Probe("G14", "environments", trials.environments, ProbeAnswer.OF_ITS_RELEASE, _READS_BACK),
    Probe(
        "G15",
        "parentheses in a URN",
        trials.loose_urn,
        ProbeAnswer.DROPPED,
        "none: a run encodes them",
        embedded=ProbeAnswer.REFUSED,
    ),
    Probe(
        "G16",
        "two new versions in one request",
        trials.versions_in_one_request,
        ProbeAnswer.BOTH_LATEST,
        "none: a run writes one version of a model per request",
        embedded=ProbeAnswer.ONE_LATEST,
    ),
    Probe(
        "G19",
        "former latest version",
        trials.new_latest,
        ProbeAnswer.ONE_LATEST,
        "the catalog shows another version as the latest",
    ),
    Probe(
        "G20",
        "batch with a refused proposal",
        trials.batch,
        ProbeAnswer.REFUSED,
        "an entity may be stored in part until the next run",
    ),
    Probe("G22", "read after a write", trials.read_after_write, ProbeAnswer.STORED, _WAITS),
    Probe(
        "G25",
        "batch of models",
        trials.permission,
        ProbeAnswer.TAKEN,
        "models cannot be written; see the message of the service",
    ),
    Probe(
        "G26",
        "run report",
        trials.run_report,
        ProbeAnswer.TAKEN,
        "runs are not listed on DataHub's Ingestion page; their data are written",
    ),
    Probe(
        "G27",
        "soft-deleted model",
        searches.soft_delete,
        ProbeAnswer.HIDDEN,
        "removed entities remain visible",
    ),
    Probe(
        "G28",
        "first of 22 versions",
        trials.kept_versions,
        ProbeAnswer.DELETED,
        "none: a run reads the versions that the service returns",
        embedded=ProbeAnswer.KEPT,
    ),
    Probe(
        "G32",
        "largest GraphQL query of a run",
        searches.large_query,
        ProbeAnswer.TAKEN,
        "datasets that do not exist are reported without similar names",
    ),
)
"""The facts that are tried, in the order in which that happens."""

UNTRIED: Final = {
    ("G17", "update of a stored version"): "a run changes stored versions by patches only",
    ("G18", "refusal after a database retry"): "a busy database would be needed",
    ("G21", "If-Version-Match on OpenAPI paths"): "a run sends conditions to /aspects only",
    ("G23", "exhausted database retries"): "a busy database would be needed",
    ("G24", "rate limit"): "would slow the service down for others",
    ("G29", "aspect of more than 16 MB"): "would burden the service",
    ("G30", "text of more than 32,766 bytes"): "a run cuts texts below that",
    ("G31", "entities that the token may not view"): "the token does not know their URNs",
    ("G33", "error texts without class names"): "a run matches sentences, not class names",
}
"""The facts that are not tried, by number and name, and the reasons."""


def run_probes(
    connection: Connection,
    *,
    probes: Sequence[Probe] = PROBES,
    patience_s: float = INDEX_PATIENCE_S,
) -> Generator[ProbeResult | Finding]:
    """Yield a row for each fact, tried or not, then the findings about the deletion.

    The probe entities are deleted also where the caller stops early; the log then names those that
    are left. Once the service does not answer, nothing more is tried.

    Raises:
        MlcatError: the service could not be reached at all; nothing was written.

    Cost: some 150 requests, one after the other, and up to `patience_s` of waiting for an index
    that is late.
    """
    entities = ProbeEntities(connection, patience_s)
    is_embedded = not entities.service.datahub
    complete = False
    try:
        reason = ""
        for probe in probes:
            result = _result(probe, entities, reason, is_embedded=is_embedded)
            if result.outcome == "failed" and result.observed == _NO_ANSWER:
                reason = _NO_ANSWER
            yield result
        for (fact, name), why in UNTRIED.items():
            yield ProbeResult(fact, name, "not tried", detail=why)
        complete = True
    finally:
        findings = list(entities.delete())
        if not complete:
            for one in findings:
                if one.outcome != "ok":
                    log.warning("%s (%s)", one.detail, one.hint)
    yield from findings


def _result(
    probe: Probe, entities: ProbeEntities, reason: str, *, is_embedded: bool
) -> ProbeResult:
    expected = probe.embedded if is_embedded and probe.embedded is not None else probe.expected

    def result(
        outcome: ProbeOutcome, observed: str = "", detail: str = "", consequence: str = ""
    ) -> ProbeResult:
        return ProbeResult(probe.fact, probe.name, outcome, expected, observed, detail, consequence)

    if reason:
        return result("not tried", detail=reason)
    try:
        observed, detail, lacks = probe.trial(entities)
    except ProbeNotPossibleError as error:
        return result("not tried", detail=str(error))
    except NotAuthorizedError as error:
        return result("not allowed", detail=error.message)
    except MlcatError as error:
        silent = isinstance(error, RetryableError) and "status" not in error.context
        return result("failed", _NO_ANSWER if silent else "an error", error.message)
    if observed == expected:
        return result("as expected", observed, detail)
    differs = result("differs", observed, detail, probe.consequence)
    return replace(differs, lacks=lacks)
