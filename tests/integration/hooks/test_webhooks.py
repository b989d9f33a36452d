"""Webhooks as a real MLflow server sends them, received by `mlcat-ingest hooks serve`."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from cryptography.fernet import Fernet
from mlflow import MlflowClient
from mlflow.entities.webhook import WebhookEvent

from mlcat_ingest.hooks.drain import drain_into
from mlcat_ingest.hooks.spool import Event
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog, running_catalog
from support.hooks import RECIPE, Bench
from support.mlflow_server import running
from support.ports import free_port
from support.venvs import OURS

pytestmark = pytest.mark.timeout(900)

SECRET = "made-up secret"
EVENTS = [
    WebhookEvent.from_str("registered_model.created"),
    WebhookEvent.from_str("model_version.created"),
    WebhookEvent.from_str("model_version_tag.set"),
    WebhookEvent.from_str("model_version_tag.deleted"),
    WebhookEvent.from_str("model_version_alias.created"),
    WebhookEvent.from_str("model_version_alias.deleted"),
    WebhookEvent.from_str("prompt.created"),
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    """A catalog of this server alone: two servers have experiments of one name."""
    with running_catalog(tmp_path_factory.mktemp("catalog") / "catalog.db") as catalog:
        yield catalog


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, catalog: RunningCatalog
) -> Iterator[tuple[Bench, MlflowClient]]:
    """An MLflow server without a hook, which may send to loopback and without TLS."""
    folder = tmp_path_factory.mktemp("webhooks")
    env = {
        "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http",
        "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
        "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode(),
        "MLFLOW_WEBHOOK_CACHE_TTL": "0",
    }
    with running(OURS, folder / "store", env=env) as mlflow, mlflow_client(mlflow.url) as client:
        bench = Bench(folder, mlflow.url)
        bench.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
        yield bench, client


@pytest.fixture(scope="module")
def receiver(server: tuple[Bench, MlflowClient]) -> Iterator[str]:
    """The address of `hooks serve` for that server; its events stay in the spool."""
    bench, _ = server
    arguments = ["hooks", "serve", str(bench.recipe), "--port", str(free_port())]
    env = bench.env(MLCAT_WEBHOOK_SECRET=SECRET, MLCAT_HOOK_SEND="0")
    with subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", *arguments],
        cwd=bench.folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.split("receiving webhooks at ")[1].split()[0]
        process.terminate()
        assert process.wait(60) == 0


def events(bench: Bench, count: int) -> list[Event]:
    """Return the events of the spool once there are `count`, and delete them."""
    deadline = time.monotonic() + 60
    while bench.spool.pending() < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with bench.spool.drain_lock():
        found = bench.spool.claim(100, bool)
        bench.spool.delete([one.name for one in found])
    return [one.event for one in found]


def test_what_mlflow_sends_is_in_the_spool_and_drained(
    server: tuple[Bench, MlflowClient], receiver: str, catalog: RunningCatalog
) -> None:
    bench, client = server
    client.create_webhook("catalog", receiver, [*EVENTS], secret=SECRET)
    run_id = client.create_run("0").info.run_id
    client.create_registered_model("sent")
    [created] = events(bench, 1)
    assert (created.names, created.recipe) == (("sent",), str(bench.recipe))
    client.create_model_version("sent", "s3://b/m", run_id=run_id, await_creation_for=0)
    [version] = events(bench, 1)
    assert version.names == (run_id, "sent")
    client.set_model_version_tag("sent", "1", "mlcat.tests", "passing")
    client.set_model_version_tag("sent", "1", "team", "a")
    client.delete_model_version_tag("sent", "1", "team")
    client.delete_registered_model_alias("sent", "none")
    assert [event.model for event in events(bench, 3)] == ["sent"] * 3
    client.set_registered_model_alias("sent", "champion", "1")
    deadline = time.monotonic() + 60
    while not bench.spool.pending():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    done = drain_into(load_resolved(bench.recipe), bench.spool, str(bench.recipe))
    assert (done.summary.events, done.summary.models, done.report) == (1, 1, None)
    urn = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,sent_1,PROD)"
    held = catalog.store.get_many([urn], ["versionProperties"])[urn]["versionProperties"].value
    assert held["aliases"] == [{"versionTag": "champion"}]


def test_mlflow_shows_that_its_secret_is_another(
    server: tuple[Bench, MlflowClient], receiver: str
) -> None:
    bench, client = server
    created = WebhookEvent.from_str("registered_model.created")
    for secret, status in ((SECRET, 200), ("another", 401), (None, 401)):
        webhook = client.create_webhook(f"w-{status}", receiver, [created], secret=secret)
        result = client.test_webhook(webhook.webhook_id)
        assert result.response_status == status, result
        client.delete_webhook(webhook.webhook_id)
    assert len(events(bench, 1)) == 1
