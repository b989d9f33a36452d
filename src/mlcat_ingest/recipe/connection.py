"""The connection to a server over HTTP in a recipe: the same keys for every server."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, model_validator

from mlcat_ingest.recipe.fields import (
    NotContent,
    OldKey,
    OptionalSecret,
    OptionalStr,
    RecipeModel,
    named,
    printable_secret,
    with_new_keys,
)
from mlcat_ingest.recipe.values import RecipePath

Timeout = Annotated[
    float,
    NotContent(),
    Field(gt=0, le=3_600, validation_alias=AliasChoices("timeout_s", "timeout_sec")),
]
"""Seconds to wait for an answer."""

Retries = Annotated[
    int,
    NotContent(),
    Field(ge=0, le=50, validation_alias=AliasChoices("retries", "retry_max_times")),
]
"""Attempts after the first."""

_Attempts = Annotated[int, Field(ge=1, le=51)]
_HeaderValue = Annotated[SecretStr, AfterValidator(printable_secret)]


def _opposite(given: Any) -> bool | None:
    return None if given is None else not given


Verify = Annotated[
    bool | None,
    NotContent(),
    OldKey(
        "tls",
        Literal["verify", "insecure"] | None,
        {"verify": True, "insecure": False}.get,
        "`verify` or `insecure`",
    ),
    OldKey("insecure_tls", bool | None, _opposite, "the opposite"),
    OldKey("disable_ssl_verification", bool | None, _opposite, "the opposite"),
]
"""Whether to check a server's certificate."""


class ConnectionConfig(RecipeModel):
    """How to reach a server over HTTP."""

    timeout_s: Timeout = 60.0
    """Seconds without data from the server after which an attempt fails."""

    retry_for_s: Annotated[float, NotContent(), Field(ge=0, le=86_400)] = 300.0
    """Seconds for which a request is tried again while the server does not answer, is overloaded
    (429) or away (502, 503, 504), or fails to read (500)."""

    retries: Annotated[
        int | None,
        NotContent(),
        Field(ge=0, le=50, validation_alias=AliasChoices("retries", "retry_max_times")),
        OldKey("max_attempts", _Attempts, lambda count: count - 1, "one more"),
    ] = None
    """Maximum number of further attempts. Default: as many as `retry_for_s` allows."""

    verify: Verify = None
    """Whether to verify the server's TLS certificate; `false` accepts any, for tests only.
    Default: true."""

    ca_bundle: Annotated[RecipePath | None, NotContent()] = named(
        "ca_bundle", "ca_certificate_path", "server_cert_path"
    )
    """PEM file or folder of the authorities that may sign the server's certificate. Default: those
    of the system."""

    client_cert: Annotated[RecipePath | None, NotContent()] = named(
        "client_cert", "client_certificate_path", "client_cert_path"
    )
    """PEM file of the client certificate."""

    client_key: Annotated[RecipePath | None, NotContent()] = named("client_key", "client_key_path")
    """PEM file of the client certificate's key, unless `client_cert` contains it."""

    headers: Annotated[dict[str, _HeaderValue], NotContent()] = Field(
        default_factory=dict, validation_alias=AliasChoices("headers", "extra_headers")
    )
    """Additional headers of every request, such as those for an authenticating proxy; the values
    are secret."""

    token: Annotated[OptionalSecret, NotContent()] = None
    """Bearer token; empty means none."""

    username: Annotated[OptionalStr, NotContent()] = None
    """User name for basic authentication."""

    password: Annotated[OptionalSecret, NotContent()] = None
    """Password for basic authentication."""

    @model_validator(mode="before")
    @classmethod
    def _in_new_keys(cls, data: Any) -> Any:
        return with_new_keys(cls, data)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.client_key is not None and self.client_cert is None:
            raise ValueError("`client_key` needs `client_cert`")
        if self.verify is False and self.ca_bundle is not None:
            raise ValueError("`verify: false` and `ca_bundle` exclude each other: set one of them")
        if self.token is not None and self.password is not None:
            raise ValueError("`token` excludes `username` and `password`: set one or the other")
        return self
