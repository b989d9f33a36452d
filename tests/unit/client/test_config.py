from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.config import EmbeddedSinkConfig, FileSinkConfig, RestSinkConfig
from mlcat_ingest.net.session import Trust
from mlcat_ingest.recipe.http_options import http_options
from mlcat_ingest.recipe.loader import Origin
from mlcat_ingest.recipe.validate import validate_config

ORIGIN = Origin("r.yml", Path("/the/recipes"))


def rest(**raw: Any) -> RestSinkConfig:
    config, problems = validate_config(RestSinkConfig, raw, (), ORIGIN)
    assert problems == []
    assert config is not None
    return config


def trust_of(config: RestSinkConfig) -> Trust:
    return http_options(config, peer="the service", connections=1).trust


def sentence(raw: dict[str, Any]) -> str:
    config, [problem] = validate_config(RestSinkConfig, raw, (), ORIGIN)
    assert config is None
    return problem.render()


def test_defaults_leave_server_and_token_to_the_environment() -> None:
    config = rest()
    trust = trust_of(config)
    assert (config.server, config.token, trust.verify, trust.cert) == (None, None, True, None)
    assert (config.batch_size, config.batch_bytes) == (1_000, 15 * 1024 * 1024)


def test_the_words_of_datahub_mean_the_same() -> None:
    config = rest(
        server="http://h/gms/",
        token="tok",
        extra_headers={"X": "y"},
        timeout_sec=7,
        max_threads=3,
        max_per_batch=50,
        ca_certificate_path="ca.pem",
        client_certificate_path="c.pem",
        client_key_path="k.pem",
        retry_max_times=9,
    )
    assert config.server == "http://h/gms"
    assert config.token is not None
    assert config.token.get_secret_value() == "tok"
    assert config.headers["X"].get_secret_value() == "y"
    assert (config.timeout_s, config.connections, config.batch_size) == (7, 3, 50)
    assert config.retries == 9
    assert config.ca_bundle == Path("/the/recipes/ca.pem")
    assert config.client_cert == Path("/the/recipes/c.pem")
    assert config.client_key == Path("/the/recipes/k.pem")
    assert trust_of(rest(disable_ssl_verification=True)).verify is False


def test_tls() -> None:
    assert trust_of(rest(client_cert=__file__)).cert == __file__


def test_empty_is_none() -> None:
    config = rest(server="", token="", server_version="")
    assert (config.server, config.token, config.server_version) == (None, None, None)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (
            {"server": "http://u:pw@h"},
            "server: must not contain a user name or a password; use `token`",
        ),
        ({"server": "http://h/?a=b"}, "server: must not end in a query or a fragment"),
        ({"batch_size": 1_001}, "batch_size: must be 1000 or less"),
        ({"client_key": "k.pem"}, "`client_key` needs `client_cert`"),
        (
            {"headers": {"X": "a\nb"}},
            "headers.X: contains a line break or another control character",
        ),
        (
            {"mode": "SYNC"},
            "mode: is not needed: acknowledged writes are always durable; delete it",
        ),
        (
            {"endpoint": "restli"},
            "endpoint: is not needed: the service reports its capabilities; delete it",
        ),
        ({"server_version": "head"}, r"server_version: must match ^v?[0-9]+\.[0-9]+"),
        ({"retries": -1}, "retries: must be 0 or more"),
        ({"tokn": "x"}, "tokn: is not a known key; did you mean `token`?"),
    ],
)
def test_what_is_refused(raw: dict[str, Any], problem: str) -> None:
    assert sentence(raw) == problem


def test_nothing_secret_is_printed() -> None:
    config = rest(token="sesame", headers={"X": "open"})
    for shown in (repr(config), config.model_dump_json()):
        assert "sesame" not in shown
        assert "open" not in shown


def test_files_and_databases_start_at_the_recipes_folder() -> None:
    file, _ = validate_config(FileSinkConfig, {"filename": "out.jsonl"}, (), ORIGIN)
    assert file is not None
    assert file.path == Path("/the/recipes/out.jsonl")
    embedded, _ = validate_config(EmbeddedSinkConfig, {}, (), ORIGIN)
    assert embedded is not None
    assert embedded.db == "sqlite:////the/recipes/mlcat-catalog.db"


def test_a_file_needs_a_path() -> None:
    _, problems = validate_config(FileSinkConfig, {}, ("sink", "config"), ORIGIN)
    assert [problem.render() for problem in problems] == ["sink.config.path: is required"]
