"""Trials of a service: each writes or asks something, and returns the service's answer.

A trial raises NotAuthorizedError where the token may not do it, and `ProbeNotPossibleError` where
something that it needs is missing. The facts that they try are declared in `probes`.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from mlcat_ingest.client.behaviour import ProbeAnswer
from mlcat_ingest.client.connection import ENVIRONMENTS_SINCE
from mlcat_ingest.client.evaluate import NO_RESULTS
from mlcat_ingest.client.probe_entities import (
    PROBE_ASPECT,
    ProbeEntities,
    ProbeNotPossibleError,
    group_urn,
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
from mlcat_ingest.metadata.aspects.ml import (
    ML_FEATURE_TABLE_PROPERTIES,
    ML_MODEL_GROUP_PROPERTIES,
)
from mlcat_ingest.metadata.aspects.untyped import DATAHUB_INGESTION_SOURCE_INFO
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION, Proposal
from mlcat_ingest.metadata.urn import MAX_URN_BYTES, entity_type_of


class Observation(NamedTuple):
    """The answer to one trial, its details in the service's words or ours, and what is not stored.

    `lacks` is that of a `ProbeResult`.
    """

    answer: ProbeAnswer
    detail: str = ""
    lacks: tuple[str, ...] = ()


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
    return _stored_part(
        probe,
        {
            urn: (
                Proposal(urn, PROBE_ASPECT, properties),
                Proposal(urn, SUB_TYPES, {"typeNames": ["Probe"]}),
                Proposal(urn, CONTAINER, {"container": f"urn:li:container:{probe_name()}"}),
                version_of(urn, version_set, "1"),
            )
        },
    )


def aspects_of_groups_and_tables(probe: ProbeEntities) -> Observation:
    """Write the aspects and fields of groups and feature tables that older releases lack."""
    group = group_urn()
    table = f"urn:li:mlFeatureTable:(urn:li:dataPlatform:mlflow,{probe_name()})"
    stamp = {"time": 1}
    page: dict[str, Any] = {
        "externalUrl": "https://example.com",
        "created": stamp,
        "lastModified": stamp,
    }
    described = probe_properties("1")
    del described["name"]  # no feature table has one
    sub_types = {"typeNames": ["Probe"]}
    return _stored_part(
        probe,
        {
            group: (
                Proposal(group, ML_MODEL_GROUP_PROPERTIES, probe_properties("1", **page)),
                Proposal(group, SUB_TYPES, sub_types),
            ),
            table: (
                Proposal(table, ML_FEATURE_TABLE_PROPERTIES, described),
                Proposal(table, SUB_TYPES, sub_types),
            ),
        },
    )


def _stored_part(probe: ProbeEntities, entities: Mapping[str, Sequence[Proposal]]) -> Observation:
    """Write entities by URN, each with its properties first; name what is not read back."""
    reply = probe.send(*chain.from_iterable(entities.values()))
    if not reply.ok:
        return Observation(ProbeAnswer.REFUSED, probe.words(reply))
    lacks: list[str] = []
    for urn, proposals in entities.items():
        names = [one.aspect_name for one in proposals]
        held = probe.client.read_many([urn], names).get(urn, {})
        if names[0] not in held:
            # The write itself is not to be seen, so nothing is known of its parts.
            return Observation(ProbeAnswer.DROPPED, f"all of {urn}")
        for one in proposals:
            place = f"{entity_type_of(urn)}.{one.aspect_name}"
            if one.aspect_name in held:
                lost = lacking(one.aspect, held[one.aspect_name].value)
                lacks += [f"{place}.{field}" for field in lost]
            else:
                lacks.append(place)
    answer = ProbeAnswer.DROPPED if lacks else ProbeAnswer.STORED
    return Observation(answer, ", ".join(lacks), tuple(lacks))


def evaluation(probe: ProbeEntities) -> Observation:
    """Evaluate the metadata tests of a model, without a push."""
    result = probe.client.evaluator.evaluate_batch([probe.subject])
    reason = result.not_evaluated
    if reason is None or reason == NO_RESULTS:
        return Observation(ProbeAnswer.THERE)
    if "may not evaluate" in reason:
        raise NotAuthorizedError(reason)
    return Observation(ProbeAnswer.MISSING if result.lacks_call else ProbeAnswer.REFUSED, reason)


def first_version(probe: ProbeEntities) -> Observation:
    """Read the version of an aspect that was written once."""
    urn = probe_urn()
    probe.write(Proposal(urn, PROBE_ASPECT, probe_properties("1")))
    held = probe.client.read_many([urn], [PROBE_ASPECT]).get(urn, {}).get(PROBE_ASPECT)
    if held is None:
        raise ProbeNotPossibleError("a written aspect is not read back")
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
