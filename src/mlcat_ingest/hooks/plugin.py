"""The plugin that MLflow loads at its own import: it must cost nothing, and cannot go wrong.

MLflow asks each provider of run context, at each fluent `start_run`, whether it applies. If
MLCAT_HOOK is on, that is the moment to begin to listen; without it, one look at the environment is
all.
"""

import os


class NoRunContext:
    """A provider of run context that never has any."""

    def in_context(self) -> bool:
        """Return False; on the way, enable the hook if MLCAT_HOOK is on."""
        switch = os.environ.get("MLCAT_HOOK")
        if switch:
            from mlcat_ingest.hooks.listener import enable_by_switch

            enable_by_switch(switch)
        return False

    def tags(self) -> dict[str, str]:
        """Return nothing."""
        return {}
