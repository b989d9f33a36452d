"""Hooks on MLflow runs: the catalog knows within seconds that a run has ended.

What runs in a training process, everything but the drain, is standard library only. `enable` is all
that training code needs; it is imported when it is first used, for MLflow imports this package at
its own import.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlcat_ingest.hooks.config import HookConfig
    from mlcat_ingest.hooks.enabling import enable

__all__ = ["HookConfig", "enable"]


def __getattr__(name: str) -> Any:
    """Import a name on its first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlcat_ingest.hooks import config, enabling

    return enabling.enable if name == "enable" else config.HookConfig
