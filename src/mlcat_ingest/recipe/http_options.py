"""The options of requests from a recipe's connection.

Apart from the models, which are loaded without the HTTP library.
"""

from functools import partial

from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.net.session import BearerAuth, HttpOptions, Trust
from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.fields import current


def http_options(
    config: ConnectionConfig, *, peer: str, connections: int, connect_timeout_s: float = 5.0
) -> HttpOptions:
    """Return how requests to `peer` are sent.

    Raises:
        RecipeError: a certificate file that is not there, or a user name without a password.
    """
    files: dict[str, str] = {}
    for option in ("ca_bundle", "client_cert", "client_key"):
        if (path := getattr(config, option)) is not None:
            if not path.exists():
                raise RecipeError(f"{option}: no file or folder at {path}")
            files[option] = str(path)
    cert = files.get("client_cert")
    return HttpOptions(
        auth=auth_of(config, peer),
        renew=partial(auth_of, config, peer),
        headers={name: value.get_secret_value() for name, value in config.headers.items()},
        trust=Trust(
            config.verifies is not False and files.get("ca_bundle", True),
            (cert, files["client_key"]) if cert and "client_key" in files else cert,
        ),
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=config.timeout_s,
        retry_for_s=config.retry_for_s,
        retries=config.retries,
        connections=connections,
    )


def auth_of(config: ConnectionConfig, peer: str) -> AuthBase | None:
    """Return what signs requests to `peer` in, None where nothing does.

    Raises:
        RecipeError: a user name without a password, or a password without a user name.
    """
    if config.token is not None:
        return BearerAuth(current(config.token).strip())
    if config.username is None and config.password is None:
        return None
    if config.username is None or config.password is None:
        missing = "username" if config.username is None else "password"
        raise RecipeError(
            f"{peer}'s `{missing}` is missing",
            hint="basic authentication needs `username` and `password`",
        )
    # As bytes, since requests would spell a text in Latin-1 and servers read UTF-8.
    return HTTPBasicAuth(config.username.encode(), current(config.password).encode())
