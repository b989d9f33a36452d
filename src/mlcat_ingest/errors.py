"""Every error this package raises on purpose, grouped by what the caller must do.

    MlcatError
        RecipeError                   edit the recipe, the command or the environment
            RecipeSyntaxError
            RecipeValidationError
            UnknownPluginError
            MissingExtraError
            LimitError
        RetryableError                try again later
            SourceUnavailableError
            CatalogUnavailableError
            RateLimitedError
            StateUnavailableError
                StateDamagedError
            RecipeLockedError
        FatalError                    stop the run: it cannot succeed as it is
            AuthenticationError
            NotAuthorizedError
            ProtocolMismatchError
            CatalogRequestError
        SkippableError                drop this record, keep count, go on
            RecordError
            CodecError
            DefinitionError
            InvalidUrnError
            AspectRejectedError
                AspectChangedError
                AspectTooLargeError

The embedded catalog has errors of its own, each with an HTTP status, in ``catalog/errors.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

LACKS_PERMISSION: Final = "grant the token the missing permission"
"""The hint of a refusal with 403."""


class MlcatError(Exception):
    """The root: `str()` is the sentence for the user, `hint` the cure, `context` public data."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        """Keep the sentence, the cure and what a report may show of the place."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context: dict[str, object] = dict(context or {})

    def __str__(self) -> str:
        """Return the sentence, and the cure on the same line where there is one."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the Ctrl-C that `error` was raised for, None for any other error.

    One that comes while a module is imported may arrive as the error of a descriptor.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause


# --- edit the recipe, the command or the environment ---------------------------------------------


class RecipeError(MlcatError):
    """The recipe, the command line or the environment has to change."""


class RecipeSyntaxError(RecipeError):
    """The recipe's text is not YAML or JSON."""


class RecipeValidationError(RecipeError):
    """The recipe reads as YAML but says something wrong; every problem found is listed."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep all problems; `problems` holds a line each, with its place in the file."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class UnknownPluginError(RecipeError):
    """No source or sink of that type is installed."""


class MissingExtraError(RecipeError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        """Say what needs the extra, and the command that installs it."""
        super().__init__(
            f"{what} needs the optional packages of the extra '{extra}'",
            hint=f"pip install 'mlcat-ingest[{extra}]'",
        )
        self.extra = extra


class LimitError(RecipeError):
    """A limit of the recipe would be passed; nothing beyond it was written."""


# --- try again later -----------------------------------------------------------------------------


class RetryableError(MlcatError):
    """The same call may pass later."""


class SourceUnavailableError(RetryableError):
    """The source does not answer, or broke off in the middle."""


class CatalogUnavailableError(RetryableError):
    """The catalog service does not answer, or broke off in the middle."""


class RateLimitedError(RetryableError):
    """The service asks for fewer requests, and did so for longer than the retries lasted."""


class StateUnavailableError(RetryableError):
    """The database that keeps what runs remember cannot be made, written or reached."""


class StateDamagedError(StateUnavailableError):
    """The file that keeps what runs remember does not hold what they wrote."""


class RecipeLockedError(RetryableError):
    """Another run of the same recipe is at work."""


# --- stop the run --------------------------------------------------------------------------------


class FatalError(MlcatError):
    """The run cannot succeed as it is."""


class AuthenticationError(FatalError):
    """The credentials are missing or wrong, or a login page answered in the service's place."""


class NotAuthorizedError(FatalError):
    """The credentials are right, but lack a permission."""


class ProtocolMismatchError(FatalError):
    """Another service answers than was expected, or a version that cannot work."""


class CatalogRequestError(FatalError):
    """The catalog service refused a request that is not about one record."""

    def __init__(
        self, message: str, *, status: int, hint: str | None = None, urn: str | None = None
    ) -> None:
        """Keep the HTTP status and the URN that the request was about."""
        super().__init__(message, hint=hint, context={"status": status, "urn": urn})
        self.status = status
        self.urn = urn


# --- drop this record, keep count, go on ---------------------------------------------------------


class SkippableError(MlcatError):
    """One record cannot be used; the run goes on and counts it."""


class RecordError(SkippableError):
    """A record of a source is not usable; `record_ref` names it."""

    def __init__(self, message: str, *, record_ref: str) -> None:
        """Keep the name of the record, as its source spells it."""
        super().__init__(message, context={"record": record_ref})
        self.record_ref = record_ref


class CodecError(SkippableError):
    """A value has no faithful JSON form: NaN, infinity, an over-wide integer, a lone surrogate."""


class DefinitionError(SkippableError):
    """The definition of a metadata test is rejected; every problem found is listed."""

    def __init__(self, *problems: str) -> None:
        """Keep all problems, a sentence each that begins with its place in the definition."""
        super().__init__("; ".join(problems))
        self.problems = problems


class InvalidUrnError(SkippableError):
    """A text is not a URN, or not of the kind it has to be."""


class AspectRejectedError(SkippableError):
    """The catalog service refused one proposal; `status` is the HTTP status, `reason` its words."""

    def __init__(self, *, urn: str, aspect: str, status: int, reason: str) -> None:
        """Keep the URN, the aspect, the status and the service's own words."""
        super().__init__(
            f"{urn}: {aspect} was refused with {status}: {reason}",
            hint=LACKS_PERMISSION if status == 403 else None,
            context={"urn": urn, "aspect": aspect, "status": status, "reason": reason},
        )
        self.urn = urn
        self.aspect = aspect
        self.status = status
        self.reason = reason


class AspectChangedError(AspectRejectedError):
    """A conditional proposal was refused: somebody wrote since the version that it names."""


class AspectTooLargeError(AspectRejectedError):
    """The catalog service refused an aspect for its size: sent again unchanged, it never passes."""
