"""Where an alias of a real MLflow server was: by hook, webhooks and passes, some of it lost."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from mlflow.entities.webhook import WebhookEvent

from mlcat_ingest.cli.main import call
from mlcat_ingest.hooks.drain import drain_into
from mlcat_ingest.metadata.aliases import Sighting, decode
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog, running_catalog
from support.fakes import group_urn
from support.hooks import RECIPE, Bench
from support.mlflow_server import running
from support.ports import free_port
from support.venvs import OURS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning"),
]


class Registry:
    """A registered model on a hooked server, and when each of its aliases was moved to where."""

    def __init__(self, folder: Path, catalog: RunningCatalog, stack: ExitStack) -> None:
        env = {
            "MLCAT_RECIPE": str(folder / "recipe.yml"),
            "MLCAT_HOOK_SEND": "0",
            "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http",
            "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
            "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode(),
            "MLFLOW_WEBHOOK_CACHE_TTL": "0",
        }
        arguments = ("--app-name", "mlcat")
        server = stack.enter_context(running(OURS, folder / "store", extra_args=arguments, env=env))
        self.client = stack.enter_context(mlflow_client(server.url))
        self.bench = Bench(folder, server.url)
        text = RECIPE.format(mlflow=server.url, catalog=catalog.url)
        self.bench.recipe.write_text(f"{text}report_to_catalog: false\n")
        self.catalog, self._stack = catalog, stack
        self.moves: dict[str, list[tuple[int, int, str]]] = {}
        self.client.create_registered_model("churn")
        for _ in range(5):
            self.client.create_model_version("churn", "s3://b/m", await_creation_for=0)

    def move(self, alias: str, version: str) -> tuple[int, int]:
        began_ms = now_ms()
        if version:
            self.client.set_registered_model_alias("churn", alias, version)
        else:
            self.client.delete_registered_model_alias("churn", alias)
        self.moves.setdefault(alias, [(0, began_ms, "")]).append((began_ms, now_ms(), version))
        return began_ms, now_ms()

    def lose_events(self) -> None:
        with self.bench.spool.drain_lock():
            self.bench.spool.delete([one.name for one in self.bench.spool.claim(1000, bool)])

    def drain(self) -> None:
        spool, recipe = self.bench.spool, str(self.bench.recipe)
        result = drain_into(load_resolved(self.bench.recipe), spool, recipe)
        assert (result.report, result.summary.left) == (None, 0)

    def run(self, *words: str) -> None:
        assert call([str(self.bench.recipe), "-q", *words]) == 0

    def stored(self) -> Any:
        held = self.catalog.store.get_many([group_urn("registered:churn")], None)
        return held[group_urn("registered:churn")]["mlModelGroupProperties"]

    def log(self) -> list[Sighting]:
        return decode(self.stored().value["customProperties"].get("mlcat.alias_log"))

    def seen(self, alias: str, by: str) -> list[str]:
        return [one.version for one in self.log() if (one.alias, one.by) == (alias, by)]

    def is_true(self, one: Sighting) -> bool:
        """Return whether the alias may have been at the version in the window, by all calls."""
        moves = self.moves[one.alias]
        ends = [end for _, end, _ in moves[1:]] + [now_ms()]
        return any(
            version == one.version and begin <= one.end_ms and one.begin_ms <= end
            for (begin, _, version), end in zip(moves, ends, strict=True)
        )

    def receive_webhooks(self) -> None:
        arguments = ["hooks", "serve", str(self.bench.recipe), "--port", str(free_port())]
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "mlcat_ingest", *arguments],
                env=self.bench.env(MLCAT_WEBHOOK_SECRET="s", MLCAT_HOOK_SEND="0"),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self._stack.callback(process.terminate)
        assert process.stdout is not None
        address = process.stdout.readline().split("receiving webhooks at ")[1].split()[0]
        event = WebhookEvent.from_str("model_version_alias.created")
        self.client.create_webhook("catalog", address, [event], secret="s")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with ExitStack() as stack:
        catalog = stack.enter_context(running_catalog(tmp_path / "catalog.db"))
        yield Registry(tmp_path, catalog, stack)


def test_every_sighting_is_true(registry: Registry, capfd: pytest.CaptureFixture[str]) -> None:
    def when(alias: str, on: str = "", code: int = 0) -> dict[str, Any]:
        capfd.readouterr()
        words = ["when", alias, "of", "churn", "--json", *(["--on", on] if on else [])]
        assert call([*words, "--server", registry.catalog.url, "--token", ""]) == code
        text = capfd.readouterr().out
        return json.loads(text) if text else {}

    today, day = datetime.now(UTC), timedelta(days=1)
    began = registry.move("champion", "1")
    registry.run()  # a first pass, which drains the event behind itself
    assert registry.seen("champion", "pass") == ["1"]
    assert registry.seen("champion", "event") == ["1"]
    [event] = [one for one in registry.log() if one.by == "event"]
    assert began[0] <= event.begin_ms <= event.end_ms <= began[1] + 1
    registry.run()
    assert registry.stored().version == 2  # the pass and the drain; then nothing

    registry.move("champion", "2")
    registry.move("champion", "3")
    registry.drain()
    assert registry.seen("champion", "event") == ["1", "2", "3"]
    registry.run()
    before = registry.stored().version

    time.sleep(5)  # the windows of two passes are apart
    registry.move("champion", "4")
    registry.move("next", "5")
    registry.lose_events()
    registry.run()
    assert registry.stored().version == before + 1
    assert registry.seen("champion", "pass")[-2:] == ["3", "4"]
    assert registry.seen("next", "pass") == ["", "5"]

    time.sleep(5)
    registry.client.delete_model_version("churn", "5")
    registry.moves["next"].append((now_ms() - 1_000, now_ms(), ""))
    registry.move("champion", "")
    registry.lose_events()
    registry.run("--full")
    assert registry.seen("next", "pass")[-1] == ""
    assert registry.seen("champion", "pass")[-1] == ""

    registry.receive_webhooks()
    registry.move("champion", "2")
    deadline = time.monotonic() + 60
    while registry.bench.spool.pending() < 2:  # the hook's, and the webhook's
        assert time.monotonic() < deadline
        time.sleep(0.05)
    registry.drain()
    assert registry.seen("champion", "webhook") == ["2"]

    assert [one for one in registry.log() if not registry.is_true(one)] == []
    found = when("champion", f"{today:%Y-%m-%d}")
    assert found["certainty"] == "exact"
    assert {"1", "2", "3"} <= {one["version"] for one in found["within"]}
    found = when("champion", f"{today - day:%Y-%m-%d}", 1)
    assert (found["certainty"], found["after"]["version"]) == ("not known", "1")
    found = when("champion")
    assert (found["certainty"], found["before"]["version"]) == ("interval", "2")
    when("nobody", f"{today:%Y-%m-%d}", 1)
