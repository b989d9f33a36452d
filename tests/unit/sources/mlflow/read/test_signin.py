import base64
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests
from pydantic import SecretStr

from mlcat_ingest.errors import MissingExtraError, UnknownPluginError
from mlcat_ingest.net.session import BearerAuth, HttpOptions
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.signin import HEADER_PLUGINS, sign_in

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def credentials(home: Path, text: str) -> None:
    folder = home / ".mlflow"
    folder.mkdir()
    (folder / "credentials").write_text(text, encoding="utf-8")


def header(environ: dict[str, str] | None = None, **config: Any) -> str | None:
    signed = sign_in(MlflowConfig(tracking_uri="http://h", **config), environ or {})
    request = requests.Request("GET", "http://h", auth=signed.options.auth).prepare()
    value = request.headers.get("Authorization")
    assert SECRET not in f"{signed!r} {signed.how}"
    return value if value is None else str(value)


def options_of(config: MlflowConfig, environ: dict[str, str]) -> HttpOptions:
    return sign_in(config, environ).options


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


USER = {"MLFLOW_TRACKING_USERNAME": "env", "MLFLOW_TRACKING_PASSWORD": SECRET}
TOKEN = {"MLFLOW_TRACKING_TOKEN": f" {SECRET}\n"}


def test_nothing_given_signs_in_as_nobody() -> None:
    assert header() is None


def test_the_environment_as_mlflow_reads_it() -> None:
    assert header(USER) == basic("env", SECRET)
    assert header(TOKEN) == f"Bearer {SECRET}"
    assert header({**USER, **TOKEN}) == basic("env", SECRET)
    assert header({"MLFLOW_TRACKING_USERNAME": "env"}) is None


def test_the_credentials_file_fills_what_the_environment_leaves_out(home: Path) -> None:
    credentials(
        home, f"[mlflow]\nmlflow_tracking_username = filed\nmlflow_tracking_password = %{SECRET}\n"
    )
    assert header() == basic("filed", f"%{SECRET}")
    assert header({"MLFLOW_TRACKING_USERNAME": "env"}) == basic("env", f"%{SECRET}")
    assert header(TOKEN) == basic("filed", f"%{SECRET}")


@pytest.mark.parametrize("text", ["[other]\nx = 1\n", f"password = {SECRET}\n", "[mlflow\n"])
def test_an_unusable_credentials_file_is_left_out_and_not_shown(
    home: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    credentials(home, text)
    assert header() is None
    assert SECRET not in caplog.text


def test_the_recipe_comes_first_and_is_not_mixed(home: Path) -> None:
    credentials(home, "[mlflow]\nmlflow_tracking_username = f\nmlflow_tracking_password = g\n")
    assert header(USER, token=SecretStr("mine")) == "Bearer mine"
    mine = {"username": "ada", "password": SecretStr("päss")}
    assert header({**USER, **TOKEN}, **mine) == basic("ada", "päss")
    assert header(USER, username="ada") == basic("ada", SECRET)
    assert header(USER, password=SecretStr("p")) == basic("env", "p")


def test_tls_and_headers(home: Path) -> None:
    ca, cert = home / "ca.pem", home / "me.pem"
    ca.touch()
    cert.touch()
    env = {
        "MLFLOW_TRACKING_SERVER_CERT_PATH": str(ca),
        "MLFLOW_TRACKING_CLIENT_CERT_PATH": str(cert),
    }
    plain = MlflowConfig(tracking_uri="https://h", headers={"X-A": SecretStr(SECRET)})
    signed = options_of(plain, env)
    assert (signed.trust.verify, signed.trust.cert) == (str(ca), str(cert))
    assert signed.headers == {"X-A": SECRET}
    assert options_of(plain, {}).trust.verify is True
    insecure = {**env, "MLFLOW_TRACKING_INSECURE_TLS": "true"}
    assert options_of(plain, insecure).trust.verify is False
    firm = MlflowConfig(tracking_uri="https://h", verify=True, ca_bundle=ca)
    assert options_of(firm, insecure).trust.verify == str(ca)


def test_what_a_variable_that_is_not_set_fills_is_not_given() -> None:
    empty: dict[str, Any] = {"username": "", "password": "", "token": ""}
    assert header(**empty) is None
    environment = {"MLFLOW_TRACKING_USERNAME": "a", "MLFLOW_TRACKING_PASSWORD": SECRET}
    assert header(environment, **empty) == basic("a", SECRET)


# --- MLflow's plug-ins ---------------------------------------------------------------------------


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for mlflow's registries, so that no mlflow is imported."""
    known = {"ours": BearerAuth(SECRET)}
    functions: dict[str, dict[str, Any]] = {
        "mlflow": {},
        "mlflow.tracking": {},
        "mlflow.tracking.request_auth": {},
        "mlflow.tracking.request_auth.registry": {"fetch_auth": known.get},
    }
    for name, names in functions.items():
        module = ModuleType(name)
        module.__dict__.update(names)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_signs_in() -> None:
    assert header(USER, auth="ours") == f"Bearer {SECRET}"
    assert header({"MLFLOW_TRACKING_AUTH": "ours"}) == f"Bearer {SECRET}"
    with pytest.raises(UnknownPluginError, match=r"'theirs'"):
        header(auth="theirs")


class HeaderProvider:
    def in_context(self) -> bool:
        return True

    def request_headers(self) -> dict[str, str]:
        return {"X-Plug": "in", "X-A": "plug"}


def broken() -> None:
    raise FileNotFoundError("/tmp/gone/gauge_livesum_1.db")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for what two packages register beside MLflow; one fails where it is imported."""
    here, group = test_header_plug_ins_are_loaded_by_name_only.__module__, HEADER_PLUGINS
    points = [
        EntryPoint("gateway", f"{here}:HeaderProvider", group),
        EntryPoint("feast", f"{here}:broken", group),
    ]
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group, name: [one for one in points if (one.group, one.name) == (group, name)],
    )


@pytest.mark.usefixtures("plugins", "installed")
def test_header_plug_ins_are_loaded_by_name_only(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"X-A": SecretStr("recipe")}
    config = MlflowConfig(tracking_uri="http://h", headers=headers)
    assert options_of(config, {}).headers == {"X-A": "recipe"}
    assert not caplog.messages
    named = {"MLFLOW_TRACKING_AUTH": "gateway"}
    assert options_of(config, named).headers == {"X-Plug": "in", "X-A": "recipe"}
    config = MlflowConfig(tracking_uri="http://h", auth="gateway")
    assert options_of(config, {}).headers == {"X-Plug": "in", "X-A": "plug"}


@pytest.mark.usefixtures("plugins", "installed")
def test_a_header_plug_in_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    config = MlflowConfig(tracking_uri="http://h", auth="feast")
    assert options_of(config, {}).headers == {}
    [message] = caplog.messages
    assert message == (
        "the MLflow plug-in feast adds no headers to requests: FileNotFoundError: "
        "/tmp/gone/gauge_livesum_1.db"
    )


def test_a_plug_in_without_mlflow_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"mlcat-ingest\[mlflow\]"):
        header(auth="ours")
