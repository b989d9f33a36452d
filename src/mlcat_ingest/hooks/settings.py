"""What a hook is told: by the environment, or by `enable`. Standard library only."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from mlcat_ingest.hooks.config import LONGEST_S

_RANKS = (
    *("RANK", "LOCAL_RANK", "SLURM_PROCID"),
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
)
"""Variables that number the processes of one job."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """Where events go, and who sends them.

    Events are kept in `spool`. They are for `recipe`, or without one for the catalog `server`.
    Without `sends` they wait there for a drain. Waits are in seconds.
    """

    spool: Path
    recipe: str = ""
    server: str = ""
    token: str = field(default="", repr=False)
    sends: bool = True
    debounce_s: float = 2.0
    flush_s: float = 2.0

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> Self | None:
        """Return what the environment says; None if it names neither a recipe nor a server."""
        env = os.environ if environ is None else environ
        recipe, server = env.get("MLCAT_RECIPE", ""), env.get("MLCAT_SERVER", "")
        if not recipe and not server:
            return None
        recipe = os.path.abspath(recipe) if recipe else ""  # noqa: PTH100 - links stay as they are
        return cls(
            spool=spool_of(recipe, environ=env),
            recipe=recipe,
            server="" if recipe else server,
            token=env.get("MLCAT_TOKEN", ""),
            sends=env.get("MLCAT_HOOK_SEND", "1") != "0" and _is_sender(env),
            debounce_s=_seconds(env, "MLCAT_HOOK_DEBOUNCE_S", 2.0),
            flush_s=_seconds(env, "MLCAT_HOOK_FLUSH_S", 2.0),
        )

    @property
    def missing_recipe(self) -> str | None:
        """What to warn of where this process should send by a recipe that it does not have."""
        if self.sends and self.recipe and not os.path.isfile(self.recipe):  # noqa: PTH113 - never raises
            return f"there is no recipe {self.recipe}"
        return None


def spool_of(recipe: str, given: str = "", environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the spool: the one given, or `MLCAT_SPOOL`, or a default.

    That is `.mlcat/spool` in the recipe's folder, and in the home folder where there is no recipe.
    """
    env = os.environ if environ is None else environ
    named = given or env.get("MLCAT_SPOOL", "")
    if named:
        return Path(os.path.abspath(os.path.expanduser(named)))  # noqa: PTH100, PTH111 - never raises
    home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    folder = Path(recipe).parent if recipe and "://" not in recipe else Path(home)
    return folder.absolute() / ".mlcat" / "spool"


def _is_sender(env: Mapping[str, str]) -> bool:
    """Return whether this process may send: of a job of many ranks, the first one does."""
    if env.get("MLCAT_HOOK_RANKS") == "all":
        return True
    return all(env.get(name, "0") in {"", "0"} for name in _RANKS)


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        found = float(env.get(name) or default)
    except ValueError:
        return default
    return found if 0 <= found <= LONGEST_S else default
