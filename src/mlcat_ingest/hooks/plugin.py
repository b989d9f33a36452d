"""The plugin that MLflow loads at its own import: it must cost nothing, and cannot go wrong.

MLflow asks each provider of run context, at each fluent `start_run`, whether it applies. With
MLCAT_HOOK=1 that is the moment to begin to listen; without it, one look at the environment is all.
"""

import os


class NoRunContext:
    """A provider of run context that never has any."""

    def in_context(self) -> bool:
        """Return False; on the way, enable the hook if MLCAT_HOOK is 1."""
        if os.environ.get("MLCAT_HOOK") == "1":
            from mlcat_ingest.hooks.listener import enable

            enable()
        return False

    def tags(self) -> dict[str, str]:
        """Return nothing."""
        return {}
