"""The config that `enable` takes in place of a recipe. Standard library only."""

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Final, Literal, TypedDict

from mlcat_ingest.errors import RecipeError

LONGEST_S: Final = 3_600.0
"""The longest wait that a hook may be told."""


class HookConfig(TypedDict, total=False):
    """What a hook is told by code; what is left out, the environment says.

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
    """Whether this process starts drains; without, events wait for one."""
    ranks: Literal["first", "all"]
    """Which ranks of a job start drains."""
    debounce_s: float
    """Wait from an event to its drain."""
    flush_s: float
    """What the end of the process waits for a drain at most."""


VARIABLES: Final = {
    "recipe": "MLCAT_RECIPE",
    "server": "MLCAT_SERVER",
    "token": "MLCAT_TOKEN",
    "spool": "MLCAT_SPOOL",
    "send": "MLCAT_HOOK_SEND",
    "ranks": "MLCAT_HOOK_RANKS",
    "debounce_s": "MLCAT_HOOK_DEBOUNCE_S",
    "flush_s": "MLCAT_HOOK_FLUSH_S",
}
"""Names of a config, and the variables that say the same."""

_PATHS: Final = ("recipe", "spool")
_TEXTS: Final = ("server", "token")


def with_config(config: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that says what `config` does, and of the rest what `environ` does.

    What is empty or None counts as left out. A recipe or a server wins over both of `environ`.

    Raises:
        RecipeError: a name is unknown, or a value not of its type; it tells all, and no value.
    """
    given = {name: value for name, value in config.items() if value is not None and value != ""}
    problems = "; ".join(_problems(given))
    if problems:
        raise RecipeError(f"the config cannot be used: {problems}")
    said = {VARIABLES[name]: _text(value) for name, value in given.items()}
    places = {VARIABLES["recipe"], VARIABLES["server"]}
    hidden = places if places & said.keys() else set()
    return {**{name: value for name, value in environ.items() if name not in hidden}, **said}


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _problems(given: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in given.items():
        if name not in VARIABLES:
            yield f"{name!r} is unknown{_nearest(name)}"
        elif wanted := _wanted(name, value):
            yield f"{name!r} has to be {wanted}, not {type(value).__name__}"
    if given.get("recipe") and given.get("server"):
        yield "'recipe' and 'server' cannot both be given"


def _wanted(name: str, value: Any) -> str:
    """Return what the value has to be, in words; nothing for one that is so."""
    if name in _PATHS:
        return "" if isinstance(value, str | PathLike) else "a path"
    if name in _TEXTS:
        return "" if isinstance(value, str) else "a text"
    if name == "send":
        return "" if isinstance(value, bool) else "true or false"
    if name == "ranks":
        return "" if value in {"first", "all"} else "'first' or 'all'"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if number and 0 <= value <= LONGEST_S else f"seconds from 0 to {LONGEST_S:.0f}"


def _nearest(name: Any) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(name), VARIABLES, 1)
    return f", did you mean {near[0]!r}?" if near else ""
