"""Messages of a real DataHub server whose validator refuses a proposal, in each form of a release.

Source: `AspectValidationException`, `ValidationExceptionCollection`, `ValidationException` and
`ChangeItemImpl.toString` of DataHub's server.
"""

from collections.abc import Callable, Mapping
from typing import Final

PRECONDITION: Final = "PRECONDITION"
VALIDATION: Final = "VALIDATION"
ASPECT: Final = "mlModelProperties"

Form = Callable[[str, str, str, str], str]
"""Makes a message of the URN, the description that was sent, the kind, and the sentence."""


def with_item(urn: str, description: str, kind: str, sentence: str) -> str:
    """As up to v1.6: the change stands in the message, with the whole aspect."""
    padding = "".join(f", property{n}=a value of some length" for n in range(40))
    item = (
        f"ChangeItemImpl{{changeType=UPSERT, urn={urn}, aspectName='{ASPECT}', recordTemplate="
        f"{{name=a run, description={description}, customProperties={{a=b{padding}}}}}, "
        "systemMetadata={lastObserved=1760000000000, version=4}}"
    )
    error = (
        f"AspectValidationException(item={item}, changeType=UPSERT, entityUrn={urn}, "
        f"aspectName={ASPECT}, subType={kind}, msg={sentence})"
    )
    return f"ValidationExceptionCollection{{EntityAspect:({urn},{ASPECT}) Exceptions: [{error}]}}"


def without_item(urn: str, description: str, kind: str, sentence: str) -> str:
    """As seen on v1.7."""
    del description
    error = f"AspectValidationException(subType={kind}, msg={sentence})"
    return (
        "Failed to validate MCP due to: ValidationExceptionCollection{"
        f"EntityAspect:({urn},{ASPECT}) Exceptions: [{error}]}}"
    )


def by_kind(urn: str, description: str, kind: str, sentence: str) -> str:
    """As the server's own tests have it."""
    del description
    return (
        "Failed to validate MCP due to: ValidationExceptionCollection{"
        f"EntityAspect:({urn}, {ASPECT}) Exceptions: [{kind} {sentence}]}}"
    )


def alone(urn: str, description: str, kind: str, sentence: str) -> str:
    """As the newest have it."""
    del urn, description, kind
    return sentence


FORMS: Final[Mapping[str, Form]] = {
    one.__name__: one for one in (with_item, without_item, by_kind, alone)
}
