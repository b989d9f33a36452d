"""The listener: an MLflow store tells it when a run ends. Standard library only.

MLflow has no event for that. Every way to end a run comes to `update_run_info` of a store that
`get_store` of MLflow's registry of stores gave, so the one is wrapped in what the other returns.
Neither is public, so both are looked at first: where they are not what they were, nothing is done,
and one warning says so.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.hooks.event import Event
from mlcat_ingest.hooks.sender import Sender
from mlcat_ingest.hooks.settings import HookSettings
from mlcat_ingest.hooks.spool import EventSpool

log = logging.getLogger("mlcat_ingest.hooks")

ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})
"""The states of runs that have ended, as MLflow spells them."""

_MARK: Final = "mlcat_listener"

OnEnd = Callable[[str, str, str], None]
"""Called with a run's id, its status, and the tracking URI of its store."""


class Listener:
    """Writes an event for each run that ends; whatever goes wrong in it is told once."""

    def __init__(self, settings: HookSettings) -> None:
        """Write to the spool of `settings`; nothing is touched before a run ends."""
        self._settings = settings
        self._spool = EventSpool(settings.spool)
        self._sender = Sender(settings, self._spool)
        self._warn = Once()
        if (problem := settings.missing_recipe) is not None:
            self._warn(problem)

    def __call__(self, run_id: str, status: str, tracking_uri: str) -> None:
        """Write the event and let it be sent soon.

        Cost: one durable write of a small file; no network.
        """
        event = Event(
            run_id,
            status,
            redact_url(tracking_uri),
            os.environ.get("MLFLOW_WORKSPACE", ""),
            self._settings.recipe,
            time.time_ns() // 1_000_000,
        )
        try:
            if not self._spool.put(event):
                self._warn(f"the spool {self._spool.folder} is full")
        except OSError as error:
            self._warn(f"the spool {self._spool.folder} cannot be written: {error.strerror}")
        else:
            self._sender.poke(tracking_uri)


class Once:
    """Warns the first time it is called: more would drown what training itself says."""

    def __init__(self) -> None:
        """Have warned of nothing."""
        self._warned = False
        self._lock = threading.Lock()

    def __call__(self, why: str) -> None:
        """Warn of what keeps the catalog from hearing of runs as they end."""
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            log.warning(
                "mlcat-ingest: the catalog hears of runs by its scheduled run only: %s", why
            )


def listen(registry: Any, on_end: OnEnd, uri_of: Callable[[Any], str]) -> bool:
    """Let the stores that `registry` gives tell `on_end` of runs that end, from now on.

    `uri_of` returns the tracking URI that an argument of `get_store` means. False is returned where
    this MLflow is not one that can be listened to.
    """
    get_store = getattr(registry, "get_store", None)
    if not callable(get_store) or not hasattr(registry, "__dict__"):
        return False
    if getattr(get_store, _MARK, False):
        return True

    def heard(store_uri: Any = None, *args: Any, **options: Any) -> Any:
        store = get_store(store_uri, *args, **options)
        guarded(lambda: attach(store, on_end, lambda: uri_of(store_uri)))
        return store

    setattr(heard, _MARK, True)
    registry.get_store = heard
    return True


def attach(store: Any, on_end: OnEnd, uri: Callable[[], str]) -> None:
    """Let one store tell `on_end` of runs that end, unless it does so already."""
    update = getattr(store, "update_run_info", None)
    if not callable(update) or getattr(update, _MARK, False):
        return
    tracking_uri = uri()

    def update_run_info(*args: Any, **options: Any) -> Any:
        info = update(*args, **options)
        guarded(lambda: _tell(info, on_end, tracking_uri))
        return info

    setattr(update_run_info, _MARK, True)
    store.update_run_info = update_run_info


def _tell(info: Any, on_end: OnEnd, tracking_uri: str) -> None:
    status = str(info.status)
    if status in ENDED:
        on_end(str(info.run_id), status, tracking_uri)


_warn_of_errors = Once()


def guarded(work: Callable[[], object]) -> None:
    """Do `work`; an error in it is told once, and stops nobody."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the border: training goes on whatever happens here
        _warn_of_errors(f"{type(error).__name__}: {error}")
