"""Trials of a service: each writes or asks something, and returns the service's answer.

A trial raises NotAuthorizedError where the token may not do it, and `ProbeNotPossibleError` where
something that it needs is missing. The facts that they try are declared in `probes`.
"""

from enum import StrEnum
from typing import Any, Final, NamedTuple

from mlcat_ingest.client.connection import ENVIRONMENTS_SINCE
from mlcat_ingest.client.evaluate import NO_RESULTS
from mlcat_ingest.client.probe_entities import (
    PROBE_ASPECT,
    ProbeEntities,
    ProbeNotPossibleError,
    lacking,
    probe_name,
    probe_properties,
    probe_urn,
    version_of,
    version_set_urn,
)
from mlcat_ingest.client.responses import is_conflict, server_message
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import NotAuthorizedError
from mlcat_ingest.metadata.aspects.common import (
    CONTAINER,
    IS_LATEST,
    SUB_TYPES,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.aspects.untyped import DATAHUB_INGESTION_SOURCE_INFO
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION, Proposal
from mlcat_ingest.metadata.urn import MAX_URN_BYTES


class ProbeAnswer(StrEnum):
    """The ways in which a service answers a trial."""

    TAKEN = "taken"
    REFUSED = "refused"
    CONFLICT = "refused as a conflict"
    DROPPED = "acknowledged, not stored"
    STORED = "stored"
    THERE = "there"
    MISSING = "no such call"
    FOUND = "found"
    NOT_FOUND = "not found"
    KEPT = "kept"
    DELETED = "deleted"
    HIDDEN = "hidden, and readable"
    SHOWN = "shown"
    NUMBERED = "1"
    UNNUMBERED = "none, or another"
    OF_ITS_RELEASE = "as its release says"
    NOT_OF_ITS_RELEASE = "not as its release says"
    ONE_LATEST = "one is the latest"
    BOTH_LATEST = "each is the latest"
    NO_LATEST = "none is the latest"
    LATEST_UNLESS_ASKED = "the latest, all if asked"
    ALL_VERSIONS = "all versions"


class Observation(NamedTuple):
    """The answer to one trial, and its details in the service's words or ours."""

    answer: ProbeAnswer
    detail: str = ""


_MANY_VERSIONS: Final = 22


def conflict(probe: ProbeEntities) -> Observation:
    """Write under a condition that cannot hold."""
    reply = probe.send(
        Proposal(
            probe.subject,
            PROBE_ASPECT,
            probe_properties("2"),
            headers={IF_VERSION_MATCH: NO_SUCH_VERSION},
        )
    )
    if reply.ok:
        return Observation(ProbeAnswer.TAKEN)
    length = plural(len(reply.content), "byte")
    answer = ProbeAnswer.CONFLICT if is_conflict(reply) else ProbeAnswer.REFUSED
    return Observation(answer, f"{probe.words(reply)} ({length})")


def latest_in_a_proposal(probe: ProbeEntities) -> Observation:
    """Write a version with the field that the service computes."""
    version_set = version_set_urn()
    urn = probe_urn()
    return outcome_of_write(probe, version_of(urn, version_set, "1", **{IS_LATEST: True}))


def unknown_aspect(probe: ProbeEntities) -> Observation:
    """Write an aspect of a name that no release knows."""
    urn, aspect = probe.subject, "mlcatProbe"
    reply = probe.send(Proposal(urn, aspect, {"text": "probe"}))
    if not reply.ok:
        return Observation(ProbeAnswer.REFUSED, probe.words(reply))
    is_stored = urn in probe.read([urn], aspect)
    return Observation(ProbeAnswer.STORED if is_stored else ProbeAnswer.DROPPED)


def unknown_field(probe: ProbeEntities) -> Observation:
    """Write a field of a name that no release knows."""
    urn = probe_urn()
    reply = probe.send(Proposal(urn, PROBE_ASPECT, probe_properties("1", mlcatProbe="probe")))
    if not reply.ok:
        return Observation(ProbeAnswer.REFUSED, probe.words(reply))
    held = probe.read([urn]).get(urn)
    if held is None:
        return Observation(ProbeAnswer.DROPPED, "with all of its aspect")
    return Observation(ProbeAnswer.STORED if "mlcatProbe" in held else ProbeAnswer.DROPPED)


def aspects_of_models(probe: ProbeEntities) -> Observation:
    """Write the aspects and fields that older releases lack, and read them back."""
    urn = probe_urn()
    version_set = version_set_urn()
    stamp = {"time": 1}
    job = f"urn:li:dataProcessInstance:{probe_name()}"
    properties = probe_properties("1", created=stamp, lastModified=stamp, trainingJobs=[job])
    proposals = (
        Proposal(urn, PROBE_ASPECT, properties),
        Proposal(urn, SUB_TYPES, {"typeNames": ["Probe"]}),
        Proposal(urn, CONTAINER, {"container": f"urn:li:container:{probe_name()}"}),
        version_of(urn, version_set, "1"),
    )
    reply = probe.send(*proposals)
    if not reply.ok:
        return Observation(ProbeAnswer.REFUSED, probe.words(reply))
    names = [one.aspect_name for one in proposals]
    held = probe.client.read_many([urn], names).get(urn, {})
    dropped = [name for name in names if name not in held]
    if PROBE_ASPECT in held:
        lost = lacking(properties, held[PROBE_ASPECT].value)
        dropped += [f"{PROBE_ASPECT}.{field}" for field in lost]
    return Observation(ProbeAnswer.DROPPED if dropped else ProbeAnswer.STORED, ", ".join(dropped))


def evaluation(probe: ProbeEntities) -> Observation:
    """Evaluate the metadata tests of a model, without a push."""
    result = probe.client.evaluator.evaluate_batch([probe.subject])
    reason = result.not_evaluated
    if reason is None or reason == NO_RESULTS:
        return Observation(ProbeAnswer.THERE)
    if "may not evaluate" in reason:
        raise NotAuthorizedError(reason)
    return Observation(ProbeAnswer.MISSING, reason)


def first_version(probe: ProbeEntities) -> Observation:
    """Read the version of an aspect that was written once."""
    urn = probe_urn()
    probe.write(Proposal(urn, PROBE_ASPECT, probe_properties("1")))
    held = probe.client.read_many([urn], [PROBE_ASPECT]).get(urn, {}).get(PROBE_ASPECT)
    if held is None:
        raise ProbeNotPossibleError("what was written is not read back")
    is_first = held.version == "1"
    return Observation(
        ProbeAnswer.NUMBERED if is_first else ProbeAnswer.UNNUMBERED, held.version or ""
    )


def history_of_deleted_aspect(probe: ProbeEntities) -> Observation:
    """Write an aspect twice, delete it, and read its first version."""
    urn = probe_urn()
    for text in ("1", "2"):
        probe.write(Proposal(urn, PROBE_ASPECT, probe_properties(text)))
    if probe.client.get_aspect(urn, PROBE_ASPECT, 1) is None:
        raise ProbeNotPossibleError("the service keeps no earlier version")
    refused = probe.client.write([Proposal(urn, PROBE_ASPECT, {}, "DELETE")])
    if refused and refused[0].status == 403:
        raise NotAuthorizedError(refused[0].reason)
    if refused:
        return Observation(ProbeAnswer.REFUSED, refused[0].reason)
    is_kept = probe.client.get_aspect(urn, PROBE_ASPECT, 1) is not None
    return Observation(ProbeAnswer.KEPT if is_kept else ProbeAnswer.DELETED)


def task_status(probe: ProbeEntities) -> Observation:
    """Ask for the status of a task that there is not."""
    status = probe.client.task_status("mlcat-ingest-check:1")
    answer = ProbeAnswer.NOT_FOUND if status.error is not None else ProbeAnswer.FOUND
    return Observation(answer, status.error or "")


def long_urn(probe: ProbeEntities) -> Observation:
    """Write a model whose URN is longer than a server allows."""
    return _write_and_read(probe, probe_urn("x" * MAX_URN_BYTES))


def loose_urn(probe: ProbeEntities) -> Observation:
    """Write a model with parentheses in its name, after one with encoded ones."""
    encoded = probe_urn("%28x%29")
    if _write_and_read(probe, encoded).answer is not ProbeAnswer.STORED:
        raise ProbeNotPossibleError("a model with encoded parentheses is not stored either")
    return _write_and_read(probe, probe_urn("(x)"))


def environments(probe: ProbeEntities) -> Observation:
    """Write a model of each environment that some releases lack."""
    urns = {env: probe_urn(env=env) for env in sorted(ENVIRONMENTS_SINCE)}
    written = [
        urn
        for urn in urns.values()
        if probe.send(Proposal(urn, PROBE_ASPECT, probe_properties("1"))).ok
    ]
    held = probe.read(written) if written else {}
    missing = {env for env, urn in urns.items() if urn not in held}
    detail = f"without {', '.join(sorted(missing))}" if missing else f"all {len(urns)}"
    if missing == urns.keys() - probe.service.environments:
        return Observation(ProbeAnswer.OF_ITS_RELEASE, detail)
    return Observation(ProbeAnswer.NOT_OF_ITS_RELEASE, detail)


def versions_in_one_request(probe: ProbeEntities) -> Observation:
    """Write two new versions of one set in one request."""
    version_set = version_set_urn()
    urns = [probe_urn(), probe_urn()]
    probe.write(*(version_of(urn, version_set, str(n)) for n, urn in enumerate(urns, 1)))
    return _latest(probe, urns)


def new_latest(probe: ProbeEntities) -> Observation:
    """Read whether a former latest version is one still."""
    _, first, second = probe.versions
    return _latest(probe, [first, second])


def _latest(probe: ProbeEntities, urns: list[str]) -> Observation:
    held = probe.read(urns, VERSION_PROPERTIES)
    latest = [urn for urn in urns if held.get(urn, {}).get(IS_LATEST) is True]
    return Observation(
        (ProbeAnswer.NO_LATEST, ProbeAnswer.ONE_LATEST, ProbeAnswer.BOTH_LATEST)[len(latest)]
    )


def batch(probe: ProbeEntities) -> Observation:
    """Write two models in one request, one of them under a condition that does not hold."""
    sound, refused = probe_urn(), probe_urn()
    condition = {IF_VERSION_MATCH: NO_SUCH_VERSION}
    reply = probe.send(
        Proposal(sound, PROBE_ASPECT, probe_properties("1")),
        Proposal(refused, PROBE_ASPECT, probe_properties("1"), headers=condition),
    )
    held = probe.read([sound, refused])
    if reply.ok:
        return Observation(ProbeAnswer.TAKEN, f"{len(held)} of 2 stored")
    answer = ProbeAnswer.STORED if held else ProbeAnswer.REFUSED
    return Observation(answer, f"{len(held)} of 2 stored: {server_message(reply)}")


def read_after_write(probe: ProbeEntities) -> Observation:
    """Write a model, and read it at once."""
    return _write_and_read(probe, probe_urn())


def permission(probe: ProbeEntities) -> Observation:
    """Write two models in one request."""
    urns = [probe_urn(), probe_urn()]
    return outcome_of_write(
        probe, *(Proposal(urn, PROBE_ASPECT, probe_properties("1")) for urn in urns)
    )


def run_report(probe: ProbeEntities) -> Observation:
    """Write an ingestion source, as run reports do."""
    urn = f"urn:li:dataHubIngestionSource:{probe_name()}"
    config: dict[str, Any] = {"recipe": "{}", "executorId": "mlcat-ingest-check"}
    info = {"name": "mlcat-ingest check", "type": "mlflow", "config": config}
    return outcome_of_write(probe, Proposal(urn, DATAHUB_INGESTION_SOURCE_INFO, info))


def kept_versions(probe: ProbeEntities) -> Observation:
    """Write an aspect more often than a server keeps its versions; read the first one."""
    urn = probe_urn()
    for number in range(_MANY_VERSIONS):
        probe.write(Proposal(urn, PROBE_ASPECT, probe_properties(str(number))))
    is_kept = probe.client.get_aspect(urn, PROBE_ASPECT, 1) is not None
    return Observation(
        ProbeAnswer.KEPT if is_kept else ProbeAnswer.DELETED, f"of {_MANY_VERSIONS} versions"
    )


def outcome_of_write(probe: ProbeEntities, *proposals: Proposal) -> Observation:
    """Write `proposals` in one request."""
    reply = probe.send(*proposals)
    return Observation(ProbeAnswer.TAKEN if reply.ok else ProbeAnswer.REFUSED, probe.words(reply))


def _write_and_read(probe: ProbeEntities, urn: str) -> Observation:
    """Write a model, and read it back."""
    reply = probe.send(Proposal(urn, PROBE_ASPECT, probe_properties("1")))
    if not reply.ok:
        return Observation(ProbeAnswer.REFUSED, probe.words(reply))
    is_stored = urn in probe.read([urn])
    return Observation(ProbeAnswer.STORED if is_stored else ProbeAnswer.DROPPED)
