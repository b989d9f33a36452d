"""Identities of a recipe's sources: two that are equal are refused before anything is read."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.pipeline.state.session import equal_identities
from mlcat_ingest.sources.base import Source


def refuse_equal_identities(sources: Sequence[Source[Any]]) -> dict[int, MlcatError]:
    """Return if no two of `sources` read the same partition.

    A source that does not answer now hides no other: its position and the error are returned.

    Raises:
        RecipeError: two do, or a source finds a fault in its recipe.

    Cost: see `Source.keys`; nothing where each source is of another class.
    """
    classes = Counter(map(type, sources))
    readers: dict[str, Source[Any]] = {}
    failures: dict[int, MlcatError] = {}

    def look(source: Source[Any]) -> None:
        for key in source.keys() if classes[type(source)] > 1 else ():
            first = readers.setdefault(key, source)
            if first is not source:
                raise equal_identities(f"{first.place} and {source.place}", key)

    ask_each(sources, look, failures)
    return failures


def ask_each(
    sources: Sequence[Source[Any]],
    ask: Callable[[Source[Any]], object],
    failures: dict[int, MlcatError],
) -> None:
    """Ask the sources that did not fail before; add the position and error of each that fails now.

    Raises:
        RecipeError: `ask` found a fault in the recipe.
    """
    for i, source in enumerate(sources):
        if i in failures:
            continue
        try:
            ask(source)
        except RecipeError:
            raise
        except MlcatError as error:
            failures[i] = error
