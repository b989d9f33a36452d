"""Settings of a hook, from the environment or from `enable`. Standard library only."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self, TypedDict

from mlcat_ingest.core.environment import SWITCH, is_on, local_path
from mlcat_ingest.errors import RecipeError

LONGEST_S: Final = 3_600.0
"""The longest wait that a setting may ask for."""


class HookConfig(TypedDict, total=False):
    """Settings of a hook as code gives them; the environment gives those that are left out.

    One of `recipe` and `server` is needed, from either place. A wait is in seconds.
    """

    recipe: "str | PathLike[str]"
    """File of the recipe that brings runs in."""
    server: str
    """Address of the catalog, where there is no recipe."""
    token: str
    """Token for `server`."""
    spool: "str | PathLike[str]"
    """Folder of the spool."""
    send: bool
    """True if this process starts drains; without, events wait for one."""
    ranks: Literal["first", "all"]
    """Ranks of a job that start drains."""
    debounce_s: float
    """Wait from an event to its drain."""
    flush_s: float
    """Longest wait for a drain at the end of the process."""


_PATHS: Final = ("recipe", "spool")
_TEXTS: Final = ("server", "token")

VARIABLES: Final = {
    name: f"MLCAT_{'' if name in (*_PATHS, *_TEXTS) else 'HOOK_'}{name.upper()}"
    for name in HookConfig.__annotations__
}
"""Names of a config, and the variables that say the same: MLCAT_RECIPE, MLCAT_HOOK_SEND."""


def with_config(config: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the settings of `config`, and the others of `environ`.

    An empty value or None counts as left out. A recipe or a server wins over both of `environ`.

    Raises:
        RecipeError: a name is unknown, or a value not of its type; it tells all, and no value.
    """
    given = {name: value for name, value in config.items() if value is not None and value != ""}
    problems = "; ".join(_problems(given))
    if problems:
        raise RecipeError(f"invalid hook config: {problems}")
    overrides = {
        VARIABLES[name]: str(int(value) if isinstance(value, bool) else value)
        for name, value in given.items()
    }
    places = {VARIABLES["recipe"], VARIABLES["server"]}
    hidden = places if places & overrides.keys() else set()
    return {**{name: value for name, value in environ.items() if name not in hidden}, **overrides}


def _problems(given: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in given.items():
        if name not in VARIABLES:
            from difflib import get_close_matches

            near = get_close_matches(str(name), VARIABLES, 1)
            yield f"unknown key {name!r}" + (f", did you mean {near[0]!r}?" if near else "")
        elif expected := _expected_type(name, value):
            yield f"{name!r} must be {expected}, not {type(value).__name__}"
    if given.get("recipe") and given.get("server"):
        yield "'recipe' and 'server' cannot be combined"


def _expected_type(name: str, value: Any) -> str:
    """Return what the value has to be, in words; nothing for one that is so."""
    if name in _PATHS:
        return "" if isinstance(value, str | PathLike) else "a path"
    if name in _TEXTS:
        return "" if isinstance(value, str) else "a string"
    if name == "send":
        return "" if isinstance(value, bool) else "true or false"
    if name == "ranks":
        return "" if value in {"first", "all"} else "'first' or 'all'"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if number and 0 <= value <= LONGEST_S else f"seconds from 0 to {LONGEST_S:.0f}"


_RANKS = ["RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"]
"""Variables that number the processes of one job."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The spool of events, and the recipe or catalog that they are for.

    Events are kept in `spool`. They are for `recipe`, or without one for the catalog `server`.
    Without `sends` they wait there for a drain. Waits are in seconds. `problem` is what the user
    has to know.
    """

    spool: Path
    recipe: str = ""
    server: str = ""
    token: str = field(default="", repr=False)
    sends: bool = True
    debounce_s: float = 2.0
    flush_s: float = 2.0
    problem: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the environment's settings.

        Raises:
            RecipeError: it names neither a recipe nor a server, or a path in a home folder that is
                not known, or a wait or `MLCAT_HOOK_RANKS` is none.
        """
        env = os.environ if environ is None else environ
        recipe, server = env.get("MLCAT_RECIPE", ""), env.get("MLCAT_SERVER", "")
        if not recipe and not server:
            raise RecipeError("no catalog configured; set MLCAT_RECIPE or MLCAT_SERVER")
        if recipe:
            recipe = os.path.abspath(local_path(recipe))  # noqa: PTH100 - links stay as they are
        sends = is_on(env.get("MLCAT_HOOK_SEND") or "1")
        is_sender = _is_sender(env)
        problem = None
        if sends is None:
            problem = f"MLCAT_HOOK_SEND is {SWITCH}"
        elif is_sender and recipe and not os.path.isfile(recipe):  # noqa: PTH113 - never raises
            problem = f"no recipe at {recipe}"
        return cls(
            spool=spool_of(recipe, environ=env),
            recipe=recipe,
            server="" if recipe else server,
            token=env.get("MLCAT_TOKEN", ""),
            sends=bool(sends) and is_sender,
            debounce_s=_seconds(env, "debounce_s"),
            flush_s=_seconds(env, "flush_s"),
            problem=problem,
        )


def spool_of(recipe: str, given: str = "", environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the spool: the one given, or `MLCAT_SPOOL`, or a default.

    That is `.mlcat/spool` in the recipe's folder, and in the home folder where there is no recipe.

    Raises:
        RecipeError: it would be in a home folder that is not known.
    """
    env = os.environ if environ is None else environ
    named = given or env.get("MLCAT_SPOOL", "")
    if named:
        return Path(os.path.abspath(local_path(named)))  # noqa: PTH100 - links stay as they are
    if recipe and "://" not in recipe:
        return Path(recipe).parent.absolute() / ".mlcat" / "spool"
    home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    if home == "~":
        raise RecipeError(
            "no folder for the spool: the home folder is not known", hint="set MLCAT_SPOOL"
        )
    return Path(home) / ".mlcat" / "spool"


def _is_sender(env: Mapping[str, str]) -> bool:
    """Return whether this process may send: of a job of many ranks, the first one does."""
    ranks = _checked("ranks", env.get(VARIABLES["ranks"]) or "first")
    return ranks == "all" or all(env.get(name, "0") in {"", "0"} for name in _RANKS)


def _seconds(env: Mapping[str, str], name: str) -> float:
    text = env.get(VARIABLES[name]) or "2"
    with suppress(ValueError):
        return float(_checked(name, float(text)))
    return float(_checked(name, text))


def _checked(name: str, value: Any) -> Any:
    if expected := _expected_type(name, value):
        raise RecipeError(f"{VARIABLES[name]} must be {expected}")
    return value
