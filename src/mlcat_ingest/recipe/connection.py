"""The connection to a server over HTTP in a recipe: the same keys for every server."""

from typing import Annotated, Self

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, model_validator

from mlcat_ingest.recipe.fields import (
    NotContent,
    OptionalSecret,
    OptionalStr,
    RecipeModel,
    named,
    printable_secret,
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

_HeaderValue = Annotated[SecretStr, AfterValidator(printable_secret)]


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
    ] = None
    """Maximum number of further attempts. Default: as many as `retry_for_s` allows."""

    verify: Annotated[bool | None, NotContent()] = None
    """Whether to verify the server's TLS certificate; `false` accepts any, for tests only.
    Default: true."""

    disable_ssl_verification: Annotated[bool | None, NotContent()] = None
    """The opposite of `verify`, as DataHub's recipes have it."""

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

    @property
    def verifies(self) -> bool | None:
        """Whether to verify the server's certificate, None where the recipe does not say."""
        disabled = self.disable_ssl_verification
        return self.verify if disabled is None else not disabled

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.client_key is not None and self.client_cert is None:
            raise ValueError("`client_key` needs `client_cert`")
        if self.verify is not None and self.disable_ssl_verification is not None:
            raise ValueError("`disable_ssl_verification` is the opposite of `verify`; keep one")
        if self.verifies is False and self.ca_bundle is not None:
            raise ValueError("`verify: false` and `ca_bundle` exclude each other: set one of them")
        if self.token is not None and self.password is not None:
            raise ValueError("`token` excludes `username` and `password`: set one or the other")
        return self
