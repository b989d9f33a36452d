"""Hooks on MLflow runs: the catalog knows within seconds that a run has ended.

All that runs in a training process, everything but the drain, is standard library only. `enable` is
all that training code needs. It is imported when it is first used, for MLflow imports this package
at its own import.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlcat_ingest.hooks.listener import enable
    from mlcat_ingest.hooks.settings import HookConfig

__all__ = ["HookConfig", "enable"]


def __getattr__(name: str) -> Any:
    """Import a name on its first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlcat_ingest.hooks import listener, settings

    return listener.enable if name == "enable" else settings.HookConfig
