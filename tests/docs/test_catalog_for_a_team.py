"""`catalog-for-a-team.md`: the service, the proxy with TLS and the recipe, as they stand there."""

import configparser
import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
import yaml

from docs.test_how_to import HOW_TO, STORE
from mlcat_ingest.catalog.limits import WRONG_TOKENS
from support.certificates import make_certificate
from support.page_blocks import blocks_of
from support.ports import port_to_keep
from support.walk import walker

pytestmark = pytest.mark.e2e

BLOCKS = blocks_of((HOW_TO / "catalog-for-a-team.md").read_text())
PUBLIC = "https://catalog.example.com"


def block(language: str) -> str:
    (text,) = (one.text for one in BLOCKS if one.language == language)
    return text


def service() -> Mapping[str, str]:
    """Return the settings of the unit's service, the last of each name."""
    unit = configparser.RawConfigParser(strict=False)
    unit.read_string(block("ini"))
    return unit["Service"]


@dataclass(frozen=True)
class Site:
    """A catalog behind a proxy, at `url`; `process` is the catalog."""

    url: str
    home: Path
    process: "subprocess.Popen[str]"

    def token(self, name: str) -> str:
        return (self.home / name).read_text().strip()

    def get(self, path: str, token: str | None = None) -> requests.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        certificate = str(self.home / "cert.pem")
        return requests.get(f"{self.url}{path}", headers=headers, verify=certificate, timeout=30)

    def session(self) -> requests.Session:
        """Return a session of a client that trusts the proxy's certificate."""
        session = requests.Session()
        session.trust_env = False
        session.verify = str(self.home / "cert.pem")
        return session


@contextmanager
def listening(
    command: Sequence[str], home: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Start a catalog, and give it once it answers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", *command[1:]],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        assert "the catalog is at http://127.0.0.1:" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def proxy(home: Path, catalog: int, port: int) -> Iterator[None]:
    """Run nginx with the page's configuration, for a catalog at one port, at another one."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("no nginx on this machine")
    server = block("nginx")
    for shown, real in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8080": f"127.0.0.1:{catalog}",
        "/etc/ssl/catalog.pem": str(home / "cert.pem"),
        "/etc/ssl/catalog.key": str(home / "key.pem"),
    }.items():
        assert shown in server
        server = server.replace(shown, real)
    folders = "".join(
        f"{kind}_temp_path {home / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = home / "nginx.conf"
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {home / 'nginx.pid'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{folders}{server}}}\n"
    )
    command = [program, "-e", "stderr", "-p", str(home), "-c", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(port, process)
            yield
        finally:
            process.terminate()


def wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    while True:
        assert process.poll() is None, process.communicate()
        try:
            requests.get(f"http://127.0.0.1:{port}/", timeout=30)
        except requests.ConnectionError:
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Walk the page, with its service and its proxy started in between."""
    home = tmp_path_factory.mktemp("team")
    make_certificate(home)
    (home / "mlflow.db").write_bytes(gzip.decompress(STORE.read_bytes()))
    catalog, port = port_to_keep(), port_to_keep()
    url = f"https://127.0.0.1:{port}"
    replaced = {
        "http://mlflow.example.com:5000": f"sqlite:///{home / 'mlflow.db'}",
        f'"{PUBLIC}"': f'"{url}", ca_bundle: "cert.pem"',
    }
    before = next(at for at, one in enumerate(BLOCKS) if one.language == "ini")
    start = service()["execstart"].replace("/var/lib/mlcat", str(home))
    start = start.replace("${CREDENTIALS_DIRECTORY}/", f"{home}/catalog.")
    with walker(home, replaced, start=home) as walking:
        walking.run(BLOCKS[:before])
        with (
            listening([*shlex.split(start), "--port", str(catalog)], home) as process,
            proxy(home, catalog, port),
        ):
            walking.run(BLOCKS[before:])
            yield Site(url, home, process)
            process.terminate()
            assert process.wait(30) == int(service()["successexitstatus"])


def test_the_recipe_wrote_through_the_proxy(site: Site) -> None:
    query = '{ search(input: {type: MLMODEL, query: "*"}) { total } }'
    headers = {"Authorization": f"Bearer {site.token('catalog.read-token')}"}
    with site.session() as client:
        url = f"{site.url}/api/graphql"
        answer = client.post(url, json={"query": query}, headers=headers, timeout=30)
    assert answer.json()["data"]["search"]["total"] == 10


def test_people_sign_in_with_the_token_that_reads(site: Site) -> None:
    with site.session() as browser:
        form = browser.get(f"{site.url}/", headers={"Accept": "text/html"}, timeout=30)
        (csrf,) = re.findall(r'name="csrf" value="([^"]+)"', form.text)
        fields = {"csrf": csrf, "next": "/", "token": site.token("catalog.read-token")}
        home = browser.post(form.url, fields, headers={"Origin": site.url}, timeout=30)
        assert home.status_code == 200
        assert "wine-classifier" in home.text
        assert all(cookie.secure for cookie in browser.cookies)


def test_a_client_that_guesses_tokens_locks_nobody_out(site: Site) -> None:
    for number in range(WRONG_TOKENS):
        assert site.get("/metrics", str(number)).status_code == 401
    with site.session() as client:
        headers = {"Authorization": "Bearer x", "X-Forwarded-For": "192.0.2.1"}
        answer = client.get(f"{site.url}/metrics", headers=headers, timeout=30)
    assert answer.status_code == 429
    assert site.get("/metrics", site.token("catalog.read-token")).status_code == 200


def test_a_large_request_passes_the_proxy(site: Site) -> None:
    headers = {"Authorization": f"Bearer {site.token('catalog.token')}"}
    url = f"{site.url}/openapi/v3/entity/mlModel"
    with site.session() as client:
        answer = client.post(url, data=b" " * 15_900_000, headers=headers, timeout=30)
    assert answer.status_code == 400
    assert "error" in answer.json()


def test_health_and_metrics_are_answered_as_prometheus_asks(site: Site) -> None:
    (scrape,) = (
        text for text in (one.text for one in BLOCKS) if text.startswith("scrape_configs:")
    )
    (job,) = yaml.safe_load(scrape)["scrape_configs"]
    assert job["scheme"] == "https"
    token = site.token(Path(job["authorization"]["credentials_file"]).name)
    assert "mlcat_catalog_requests_total" in site.get("/metrics", token).text
    assert site.get("/metrics").status_code == 401
    assert site.get("/health").json() == {"status": "ok"}


def test_the_unit_is_verified_by_systemd(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd on this machine")
    unit = tmp_path / "mlcat-catalog.service"
    unit.write_text(block("ini").replace("/opt/mlcat/bin/mlcat-ingest", sys.executable))
    done = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [one for one in done.stderr.splitlines() if unit.name in one]) == (
        0,
        [],
    )


def test_the_container_starts_a_catalog(tmp_path: Path) -> None:
    (line,) = re.findall(r"(?m)^CMD (.*)$", block("dockerfile"))
    command = [word.replace("/data", str(tmp_path)) for word in json.loads(line)]
    tokens = {"MLCAT_CATALOG_TOKEN": "a", "MLCAT_CATALOG_READ_TOKEN": "b"}
    with listening([*command, "--port", "0"], tmp_path, tokens):
        assert (tmp_path / "catalog.db").exists()
