"""A Hypothesis strategy that spoils good JSON in its structure."""

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

Path = tuple[str | int, ...]

NASTY: Final[tuple[Any, ...]] = (
    *(None, True, False, "", " ", "\x00", "\ud800", "a\x00b", "\U0001f600", "x" * 70_000),
    *(0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.1, -0.0, 1e308, 5e-324),
    *(float("nan"), float("inf"), "NaN", "1e999", "null", "{}", "[]", "'; DROP TABLE aspect; --"),
    *([], {}, [[]], [None], [{}], {"": {}}, {"a": None}, ["x"] * 2000, {"value": "{"}),
    *("urn:li:", "urn:li:mlModel:", "urn:li:mlModel:(((", "urn:li:corpuser:\u202eada", "%00%FF"),
    *("List(", "com.linkedin.ml.metadata.MLModelProperties", "DELETE", "PATCH", "*", "../../x"),
)
"""Values that servers trip over."""

SMALL: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn, good: Any) -> Any:
    """Draw `good` with one to three changes to its structure, also inside the texts it holds."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(_paths(value))))
        value = _changed(draw, value, path)
    return value


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    yield at
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _paths(item, (*at, key))


def _changed(draw: st.DrawFn, value: Any, path: Path) -> Any:
    """Return `value` with what is at `path` changed."""
    if path:
        head, *rest = path
        if not rest and draw(st.integers(0, 9)) == 0:
            return _around(draw, value, head)
        value[head] = _changed(draw, value[head], tuple(rest))
        return value
    if (inner := _inside(value)) is not None and draw(st.booleans()):
        return json.dumps(draw(mutated(inner)))
    match draw(st.sampled_from(["nasty", "nasty", "any", "wrap", "deep", "repeat"])):
        case "nasty":
            return copy.deepcopy(draw(st.sampled_from(NASTY)))
        case "wrap":
            return draw(st.sampled_from([[value], {"value": value}, json.dumps(value)]))
        case "deep":
            return _nested(value, draw(st.sampled_from([5, 120, 260])))
        case "repeat" if isinstance(value, list | str):
            return value * draw(st.sampled_from([0, 2, 50]))
        case _:
            return draw(SMALL)


def _inside(value: Any) -> dict[str, Any] | None:
    """Return the object whose JSON text `value` is."""
    try:
        inner = json.loads(value)
    except (ValueError, TypeError):
        return None
    return inner if isinstance(inner, dict) else None


def _around(draw: st.DrawFn, holder: Any, key: str | int) -> Any:
    """Return `holder` without `key`, or with one more name for it."""
    held = holder.pop(key)
    if isinstance(holder, dict) and draw(st.booleans()):
        holder[draw(st.sampled_from(["", "\x00", str(key).upper(), f"{key} "]) | st.text())] = held
    return holder


def _nested(value: Any, depth: int) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value
