"""What a recipe's connection becomes for requests: credentials, certificates, limits."""

from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.http_options import auth_of, http_options


def config(**given: Any) -> ConnectionConfig:
    return ConnectionConfig.model_validate(given)


def authorization(**given: Any) -> str | None:
    signed = requests.Request("GET", "http://h", auth=auth_of(config(**given), "the peer"))
    return signed.prepare().headers.get("Authorization")


def test_credentials_sign_requests() -> None:
    assert authorization() is None
    assert authorization(token=" t ") == "Bearer t"
    assert authorization(username="é", password="p") == "Basic w6k6cA=="


@pytest.mark.parametrize(
    ("given", "missing"), [({"username": "u"}, "password"), ({"password": "p"}, "username")]
)
def test_half_of_a_sign_in_is_refused(given: dict[str, str], missing: str) -> None:
    with pytest.raises(RecipeError, match=f"the peer's `{missing}` is missing"):
        auth_of(config(**given), "the peer")


@pytest.mark.parametrize(
    ("given", "verify", "cert"),
    [
        ({}, True, None),
        ({"verify": False}, False, None),
        ({"ca_bundle": __file__}, __file__, None),
        ({"client_cert": __file__}, True, __file__),
        ({"client_cert": __file__, "client_key": __file__}, True, (__file__, __file__)),
    ],
)
def test_certificates_are_those_of_the_recipe(
    given: dict[str, Any], verify: object, cert: object
) -> None:
    trust = http_options(config(**given), peer="the peer", connections=1).trust
    assert (trust.verify, trust.cert) == (verify, cert)


@pytest.mark.parametrize("option", ["ca_bundle", "client_cert", "client_key"])
def test_a_certificate_that_is_not_there_is_named(option: str, tmp_path: Path) -> None:
    absent = tmp_path / "absent.pem"
    with pytest.raises(RecipeError, match=f"{option}: no file or folder at .*absent.pem"):
        http_options(
            config(**{"client_cert": __file__, option: absent}), peer="the peer", connections=1
        )


def test_limits_and_headers_are_those_of_the_recipe() -> None:
    given = config(timeout_s=7, retries=3, retry_for_s=9, headers={"X": "y"})
    options = http_options(given, peer="the peer", connections=2, connect_timeout_s=1)
    assert (options.read_timeout_s, options.connect_timeout_s) == (7, 1)
    assert (options.retries, options.retry_for_s, options.connections) == (3, 9, 2)
    assert options.headers == {"X": "y"}
