"""Which behaviours a GMS has: options, and their values of a few releases.

Files named here are those of the DataHub server's sources.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

RefusalForm = Literal["item", "subtype", "precondition", "sentence"]
"""How a validator's refusal is worded.

- `item`: v0.14 to v1.6. The whole item, its aspect included, precedes the validator's sentence.
- `subtype`: v1.7. The kind of the refusal precedes the sentence.
- `precondition`: the kind of the refusal and the sentence, without names.
- `sentence`: the validator's own sentence alone.

Source: AspectResource.java, ValidationExceptionCollection.java, AspectValidationException.java,
ChangeItemImpl.java.
"""

_FIRST_ENVIRONMENTS: Final = frozenset(
    {
        *("DEV", "TEST", "QA", "UAT", "EI", "PRE", "STG"),
        *("NON_PROD", "PROD", "CORP", "RVW", "SANDBOX"),
    }
)


def _nobody(_urn: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class GmsProfile:
    """The behaviours of one GMS; the defaults are those of v1.6.

    Attributes:
        version: what `/config` names; None for a server that names no version.
        refusal_form: the words of a validator's refusal, see `RefusalForm`. On `/aspects` its
            status is 422, on OpenAPI paths 400. Source: AspectResource.java.
        lacks: aspects and fields that the server does not know, as `mlModel.container` or
            `mlModel.mlModelProperties.trainingJobs`. They are acknowledged and not stored.
            Source: IgnoreUnknownMutator.java.
        drops_invalid_urns: a proposal whose URN breaks a rule is left out, and its request is
            answered as a success. The rules: 512 bytes once URL-encoded, no outer white space, no
            U+241F, the number of key parts, a known environment. Source: AspectsBatchImpl.java,
            UrnValidationUtil.java.
        strict_urns: the same holds for a comma in a URN of one part, and for parentheses in a
            part (`STRICT_URN_VALIDATION_ENABLED`). Source: UrnValidationUtil.java.
        environments: the environments that exist. Source: FabricType.pdl.
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
        hides: the URNs that the token may not view: searches leave them out. Source:
            `VIEW_AUTHORIZATION_ENABLED` in application.yaml.
        forbids_run_reports: run reports need the privilege Manage Metadata Ingestion, which the
            token lacks. Source: AuthUtil.java.
        kept_versions: how many versions of an aspect can be read. Source: retention.yaml.
        numbers_first_versions: whether reads name the version of an aspect that was written once;
            before v0.14 writes stored none. Source: ConditionalWriteValidator.java.
        aspect_bytes: the longest JSON text of an aspect. Source: AspectSizeExceededException.java.
        relationship_window: where pages of relationships by `start` end. Source:
            GraphQueryBaseDAO.java.
    """

    version: str | None = "v1.6.0"
    refusal_form: RefusalForm = "item"
    lacks: frozenset[str] = frozenset()
    drops_invalid_urns: bool = True
    strict_urns: bool = True
    environments: frozenset[str] = _FIRST_ENVIRONMENTS | {"PRD", "TST", "SIT", "SBX"}
    evaluates: bool = False
    index_refresh_s: float = 0
    replica_s: float = 0
    unavailable_status: Literal[500, 503] = 500
    forbids: Callable[[str], bool] = _nobody
    hides: Callable[[str], bool] = _nobody
    forbids_run_reports: bool = False
    kept_versions: int = 20
    numbers_first_versions: bool = True
    aspect_bytes: int = 16_000_000
    relationship_window: int = 10_000


V1_6: Final = GmsProfile()
"""A current open-source server."""

V1_7: Final = replace(V1_6, version="v1.7.0", refusal_form="subtype", unavailable_status=503)
"""The next one: other words, and 503 for exhausted retries."""

V1_0: Final = replace(V1_6, version="v1.0.0", environments=_FIRST_ENVIRONMENTS)
"""The smallest server that is supported."""

_ADDED_IN_V1_0: Final = frozenset(
    {
        *("mlModel.container", "mlModel.subTypes", "mlModel.versionProperties"),
        *("mlModelGroup.container", "mlModelGroup.subTypes"),
        *(
            f"mlModel.mlModelProperties.{field}"
            for field in ("name", "created", "lastModified", "trainingJobs")
        ),
    }
)

V0_15: Final = replace(V1_0, version="v0.15.0", strict_urns=False, lacks=_ADDED_IN_V1_0)
"""A server below the smallest: it acknowledges and drops some of what a model has."""
