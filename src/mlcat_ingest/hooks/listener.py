"""The listener of a process, and `enable`, which attaches it to MLflow. Standard library only.

MLflow has no event for the end of a run. Every way to end a run calls `update_run_info` of a store
that `get_store` of MLflow's registry of stores returned, so that method is wrapped on each store.
Likewise the methods of a store of registered models that change one of these. None is public, so
all are checked first: if they differ from the known form, nothing is wrapped, and a warning says
so.
"""

import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Final, TypeVar

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.environment import SWITCH, is_on
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks.sender import Sender
from mlcat_ingest.hooks.settings import HookConfig, HookSettings, with_config
from mlcat_ingest.hooks.spool import DELETED, Event, EventSpool
from mlcat_ingest.metadata.reserved import VERDICT_TAGS

log = logging.getLogger("mlcat_ingest.hooks")

END_STATES: Final = frozenset({"FINISHED", "FAILED", "KILLED"})
"""The states of runs that have ended, as MLflow spells them."""

REGISTRY_CHANGES: Final = (
    *("create_registered_model", "update_registered_model", "rename_registered_model"),
    *("delete_registered_model", "set_registered_model_tag", "delete_registered_model_tag"),
    *("set_registered_model_alias", "delete_registered_model_alias", "create_model_version"),
    *("update_model_version", "transition_model_version_stage", "delete_model_version"),
    *("set_model_version_tag", "delete_model_version_tag"),
)
"""The methods of a store of registered models that change one of these, or its versions."""

_REMOVING: Final = frozenset(
    {"rename_registered_model", "delete_registered_model", "delete_model_version"}
)

ResultT = TypeVar("ResultT")
OnEvent = Callable[..., object]
"""Called as `Listener` is."""
Attach = Callable[[Any, OnEvent, Callable[[], str]], None]
_OnCall = Callable[[Any, Sequence[Any], Mapping[str, Any], int], None]
"""Takes the result of a call, its arguments, and when it began, in epoch milliseconds."""


class Listener:
    """Writes an event for each run that ends, and for each change of a registered model.

    Any failure in it is logged once.
    """

    def __init__(self, settings: HookSettings) -> None:
        self._settings = settings
        self._spool = EventSpool(settings.spool)
        self._sender = Sender(settings, self._spool)
        self._warn = SingleWarning()
        if (problem := settings.problem) is not None:
            self._warn(problem)

    def __call__(
        self, run_id: str, status: str, tracking_uri: str, model: str = "", **move: Any
    ) -> bool:
        """Write the event, whose drain starts soon; return whether it is written.

        `move` has the fields of an event that are of the move of an alias.

        Cost: one durable write of a small file; no network.
        """
        event = Event(
            run_id,
            status,
            redact_url(tracking_uri),
            _workspace(),
            self._settings.recipe,
            model=model,
            **{"at_ms": now_ms(), **move},
        )
        try:
            if not self._spool.put(event):
                self._warn(f"the spool {self._spool.folder} is full")
                return False
        except OSError as error:
            self._warn(f"cannot write to the spool {self._spool.folder}: {error.strerror}")
            return False
        self._sender.notify(tracking_uri)
        return True


def _workspace() -> str:
    """Return the workspace of the request that is served, or of this process, empty for none."""
    context = sys.modules.get("mlflow.utils.workspace_context")  # of MLflow from 3.10 on
    served = context and context.get_request_workspace()
    return served or os.environ.get("MLFLOW_WORKSPACE", "")


class SingleWarning:
    """Warns at its first call only: more would hide the output of training."""

    def __init__(self) -> None:
        self._warned = threading.Lock()  # taken by the first, and never given back

    def __call__(self, why: str) -> None:
        """Warn of what keeps the catalog from hearing of runs as they end."""
        if self._warned.acquire(blocking=False):
            log.warning(
                "mlcat-ingest: finished runs reach the catalog only with the scheduled run: %s", why
            )


def listen(registry: Any, on_event: OnEvent, uri_of: Callable[[Any], str], attach: Attach) -> bool:
    """Let the stores that `registry` gives tell `on_event` of what happens, from now on.

    `uri_of` returns the tracking URI that an argument of `get_store` means, and `attach` is one of
    the two functions below. False is returned where this MLflow is not one that can be listened to.
    """
    if not hasattr(registry, "__dict__"):
        return False

    def attach_to(store: Any, args: Sequence[Any], options: Mapping[str, Any], _: int) -> None:
        attach(store, on_event, lambda: uri_of(args[0] if args else options.get("store_uri")))

    return _hear(registry, "get_store", lambda _: attach_to)


class _Heard:
    """A method whose calls are told of; a copy of its owner, such as a pickled one, has the method.

    So what could be pickled without a listener still can.
    """

    def __init__(self, owner: Any, name: str, on_call: _OnCall) -> None:
        self._place, self._method, self._on_call = (owner, name), getattr(owner, name), on_call
        update_wrapper(self, self._method)

    def __call__(self, *args: Any, **options: Any) -> Any:
        since_ms = now_ms()
        result = self._method(*args, **options)
        run_guarded(lambda: self._on_call(result, args, options, since_ms))
        return result

    def __reduce__(self) -> Any:
        return getattr, self._place


def _hear(owner: Any, name: str, listener: Callable[[Callable[..., Any]], _OnCall]) -> bool:
    """Let the `listener` to a method hear of each call that returned; False if there is none.

    A method has one listener: where there is one already, nothing changes.
    """
    method = getattr(owner, name, None)
    if callable(method) and not isinstance(method, _Heard):
        setattr(owner, name, _Heard(owner, name, listener(method)))
    return callable(method)


def attach_runs(store: Any, on_end: OnEvent, uri: Callable[[], str]) -> None:
    """Let one tracking store tell `on_end` of runs that end, unless it does so already."""

    def listener(_: object) -> _OnCall:
        tracking_uri = uri()

        def on_call(info: Any, *_: object) -> None:
            if (status := str(info.status)) in END_STATES:
                on_end(str(info.run_id), status, tracking_uri)

        return on_call

    _hear(store, "update_run_info", listener)


def attach_models(store: Any, on_change: OnEvent, uri: Callable[[], str]) -> None:
    """Let one store of registered models tell `on_change` of changes, unless it does so already."""
    for name in REGISTRY_CHANGES:
        _hear(store, name, partial(_listener_to_changes, name, on_change, uri))


def _listener_to_changes(
    name: str, on_change: OnEvent, uri: Callable[[], str], change: Callable[..., Any]
) -> _OnCall:
    parameters, tracking_uri = inspect.signature(change), uri()
    status = DELETED if name in _REMOVING else ""

    def on_call(result: Any, args: Any, options: Any, since_ms: int) -> None:
        at_ms = now_ms() + 1
        given = parameters.bind(*args, **options).arguments
        key = given.get("key") or getattr(given.get("tag"), "key", "")
        if is_own_tag(key):
            return
        # Of a run the catalog has the names of its versions, and no more of these.
        run_id = str(result.run_id or "") if name == "create_model_version" else ""
        move: dict[str, Any] = {}
        if alias := given.get("alias"):
            move = {"alias": str(alias), "version": str(given.get("version") or "")}
            move |= {"since_ms": since_ms, "at_ms": at_ms}
        for model in dict.fromkeys(filter(None, map(given.get, ("name", "new_name")))):
            on_change(run_id, status, tracking_uri, str(model), **move)

    return on_call


def is_own_tag(key: Any) -> bool:
    """Return whether a tag is one that this package writes to MLflow: no change to tell of."""
    return isinstance(key, str) and key in VERDICT_TAGS


_warn_of_errors = SingleWarning()


def run_guarded(work: Callable[[], ResultT]) -> ResultT | None:
    """Return the result of `work`; an error in it is one warning, and None."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the border: training goes on whatever happens here
        _warn_of_errors(f"{type(error).__name__}: {error}")
        return None


_lock = threading.Lock()
warn = SingleWarning()
"""Tells why nothing is listened to, once a process."""
_enabled = False


def enable(
    recipe_or_config: str | Path | HookConfig | None = None,
    *,
    server: str | None = None,
    token: str | None = None,
    spool: str | Path | None = None,
) -> bool:
    """Let the catalog hear within seconds of each MLflow run that ends in this process.

    The runs are ingested as by the recipe, a file; or without one as by
    `mlcat-ingest <tracking URI> --to <server>`. A `HookConfig` says that and more. Settings that
    are not given come from the variables of the same meaning, such as MLCAT_RECIPE.

    It never raises, and a second call changes nothing. It warns once and returns False if it can do
    nothing: there is no sink or no recipe, the config is wrong, or this MLflow is not known.
    """
    given = {"server": server, "token": token, "spool": spool}
    return bool(run_guarded(lambda: _enable(recipe_or_config, given)))


def enable_by_switch(switch: str) -> None:
    """Enable the hook if `switch`, the value of MLCAT_HOOK, is on; it never raises."""
    on = is_on(switch)
    if on is None:
        run_guarded(lambda: warn(f"MLCAT_HOOK is {SWITCH}"))
    elif on:
        enable()


def _enable(recipe_or_config: str | Path | HookConfig | None, given: Mapping[str, Any]) -> bool:
    global _enabled  # noqa: PLW0603 - one listener a process
    with _lock:
        if _enabled:
            return True
        config: dict[str, Any] = {name: item for name, item in given.items() if item is not None}
        if isinstance(recipe_or_config, Mapping):
            config = {**recipe_or_config, **config}
        else:
            config["recipe"] = recipe_or_config
        try:
            settings = HookSettings.of(with_config(config, os.environ))
        except RecipeError as error:
            warn(str(error))
            return False
        if (problem := settings.problem) is not None:
            warn(problem)
            if settings.sends:
                return False
        _enabled = _listen(settings)
        if not _enabled:
            warn("this version of MLflow is not supported by the hook")
        return _enabled


def _listen(settings: HookSettings) -> bool:
    try:
        from mlflow.tracking._tracking_service import utils
    except ImportError:
        return False
    registry = getattr(utils, "_tracking_store_registry", None)
    get_uri = getattr(utils, "get_tracking_uri", None)
    if not callable(get_uri):
        return False

    def uri_of(given: Any) -> str:
        return str(given or get_uri())

    return listen(registry, Listener(settings), uri_of, attach_runs)
