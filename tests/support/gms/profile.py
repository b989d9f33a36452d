"""The behaviours of a GMS: options, their values of a few releases, and its rules of URNs.

GMS leaves a proposal out whose URN breaks a rule. Files named here are those of the DataHub
server's sources; for URNs they are UrnValidationUtil.java and EntityKeyUtils.java.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal
from urllib.parse import quote_plus

from mlcat_ingest.metadata.urn import KINDS, UrnPart
from support.gms.releases import server_release

_V1_6: Final = server_release("v1.6.0")


def _no_urn(_urn: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class GmsProfile:
    """The behaviours of one GMS; the defaults are those of v1.6.

    Attributes:
        version: what `/config` names; None for a server that names no version.
        lacks: aspects and fields that the server does not know, as `mlModel.container` or
            `mlModel.mlModelProperties.trainingJobs`, fields at any depth. They are acknowledged
            and not stored. By release they are in `releases.json`. Source:
            IgnoreUnknownMutator.java.
        environments: the environments that exist; by release, in the same file.
        evaluates: whether `/test` exists; in open-source releases it does not. Source:
            MetadataTestResource.java.
        index_refresh_s: the search index shows what was stored when it was last refreshed; it is
            refreshed by the first search after so many seconds. 0: at once, `math.inf`: only by
            `RunningGms.catch_up`. Source: UpdateIndicesHook.java.
        replica_s: aspects are read from a replica of the database, which lags as the index does.
            0: they are not. Source: `EBEAN_READ_POOL_*` in application.yaml.
        unavailable_status: what exhausted database retries are, see `RunningGms.fail_writes`: 503
            with `Retry-After` from v1.7, 500 before. Source: AspectResource.java.
        forbids: the URNs for which the token has no privilege. One of them in a request refuses
            all of it with a 403 that names them. Source: AspectResource.java, AuthUtil.java.
        denies_reads: the URNs that the token may not view. One of them in a read refuses all of it
            with a 403 that names none; searches list them. Source: AuthUtil.java.
        forbids_run_reports: run reports need the privilege Manage Metadata Ingestion, which the
            token lacks. Source: AuthUtil.java.
        numbers_first_versions: whether reads name the version of an aspect that was written once;
            before v0.14 writes stored none. Source: ConditionalWriteValidator.java.
        aspect_bytes: the longest JSON text of an aspect. Source: AspectSizeExceededException.java.
    """

    version: str | None = "v1.6.0"
    lacks: frozenset[str] = _V1_6.lacks
    environments: frozenset[str] = _V1_6.environments
    evaluates: bool = False
    index_refresh_s: float = 0
    replica_s: float = 0
    unavailable_status: Literal[500, 503] = 500
    forbids: Callable[[str], bool] = _no_urn
    denies_reads: Callable[[str], bool] = _no_urn
    forbids_run_reports: bool = False
    numbers_first_versions: bool = True
    aspect_bytes: int = 16_000_000


V1_6: Final = GmsProfile()
"""A current open-source server."""


def _of_release(profile: GmsProfile, version: str) -> GmsProfile:
    """Return `profile` with the model of a release."""
    known = server_release(version)
    return replace(profile, version=version, lacks=known.lacks, environments=known.environments)


V1_7: Final = replace(_of_release(V1_6, "v1.7.0"), unavailable_status=503)
"""The next one: 503 for exhausted retries."""

V1_0: Final = _of_release(V1_6, "v1.0.0")
"""The smallest server that is supported."""

V0_15: Final = _of_release(V1_0, "v0.15.0")
"""A server below the smallest: it acknowledges and drops some of what a model has."""


_LONGEST: Final = 512
_SEPARATOR: Final = "\u241f"
_WITHOUT_LIMIT: Final = "schemaField"


def is_valid(urn: str, profile: GmsProfile) -> bool:
    """Return whether a server with `profile` stores what a proposal for `urn` brings."""
    scheme, _, rest = urn.partition("urn:li:")
    entity_type, _, key = rest.partition(":")
    if scheme or not entity_type or not key:
        return False
    parts = list(_parts(key))
    return (
        urn.strip() == urn
        and _SEPARATOR not in urn
        and (entity_type == _WITHOUT_LIMIT or len(quote_plus(urn, safe="*")) <= _LONGEST)
        and _fits_key(entity_type, parts, profile)
        and not _is_loose(parts)
    )


def _fits_key(entity_type: str, parts: Sequence[str], profile: GmsProfile) -> bool:
    roles = KINDS.get(entity_type)
    if roles is None:
        return True
    return len(parts) == len(roles) and all(
        part is not UrnPart.FABRIC or text in profile.environments
        for part, text in zip(roles, parts, strict=True)
    )


def _is_loose(parts: Sequence[str]) -> bool:
    """Return whether a part holds a raw comma or parenthesis; a nested URN may."""
    return any(
        not part.startswith("urn:li:")
        and "%28" not in part
        and "%29" not in part
        and any(character in part for character in "(),")
        for part in parts
    )


def _parts(key: str) -> Iterator[str]:
    """Yield the parts of a key; a comma inside of nested parentheses separates nothing."""
    if not (key.startswith("(") and key.endswith(")")):
        yield key
        return
    depth = begin = 0
    inner = key[1:-1]
    for at, character in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield inner[begin:at]
            begin = at + 1
    yield inner[begin:]
