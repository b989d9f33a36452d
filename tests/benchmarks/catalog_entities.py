"""Entities for benchmarks of the catalog; equal arguments give equal entities.

Words are drawn as they are in real text: the most common one is in most descriptions, most of the
50,000 words are in a handful.
"""

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from support.catalog_store import feature, group, model, table

VOCABULARY: Final = 50_000
GROUPS: Final = 100

_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"
_WEIGHTS: Final = tuple(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
_START_MS: Final = 1_760_000_000_000

Aspect = tuple[str, str, dict[str, Any]]
"""An entity's URN, the name of an aspect, and its value."""


def word(rank: int) -> str:
    """Return the word that is the `rank`th in frequency, 0 the most common; all words differ."""
    syllables: list[str] = []
    left = rank
    while left or not syllables:
        left, at = divmod(left, len(_CONSONANTS) * len(_VOWELS))
        syllables.append(_CONSONANTS[at % len(_CONSONANTS)] + _VOWELS[at // len(_CONSONANTS)])
    return "".join(syllables) + "n"


_WORDS: Final = tuple(word(rank) for rank in range(VOCABULARY))


def words(number: int, count: int) -> list[str]:
    """Return the words of text `number`."""
    return random.Random(number).choices(_WORDS, cum_weights=_WEIGHTS, k=count)


def small(number: int) -> Aspect:
    """Return a feature with a description of eight words."""
    value = {"description": " ".join(words(number, 8)), "dataType": "CONTINUOUS"}
    return feature(f"table_{number % 50}", f"feature_{number}"), "mlFeatureProperties", value


def run(number: int, params: int = 20, metrics: int = 20) -> Aspect:
    """Return a model as an MLflow run becomes one."""
    run_id = f"{random.Random(number).getrandbits(128):032x}"
    first, second, *described = words(number, 14)
    value = {
        "name": f"{first}-{second}-{number}",
        "description": " ".join(described),
        "customProperties": {
            "mlcat.source": "mlflow:0123456789ab:default",
            "mlflow.run_id": run_id,
            "mlflow.experiment_id": str(number % GROUPS),
            "mlflow.user": "trainer",
        },
        "created": {"time": _START_MS + number},
        "lastModified": {"time": _START_MS + number + 30_000},
        "externalUrl": f"http://mlflow:5000/#/experiments/{number % GROUPS}/runs/{run_id}",
        "hyperParams": [
            {"name": f"param_{at:02}", "value": str((number * 31 + at) % 1000 / 1000)}
            for at in range(params)
        ],
        "trainingMetrics": [
            {
                "name": f"metric_{at:02}",
                "value": str((number * 7919 + at * 104_729) % 1_000_003 / 1_000_003),
                "createdAt": _START_MS + number,
            }
            for at in range(metrics)
        ],
        "groups": [group(f"experiment-{number % GROUPS:03}")],
    }
    return model(run_id), "mlModelProperties", value


def mixed(count: int) -> Iterator[Aspect]:
    """Yield a catalog of `count` entities: 60 % models, 35 % features, 5 % groups and tables."""
    for number in range(count):
        kind = number % 20
        if kind < 12:
            yield run(number, params=3, metrics=3)
        elif kind < 19:
            yield small(number)
        else:
            yield _container(number)


def _container(number: int) -> Aspect:
    name = "-".join(words(number, 2))
    description = " ".join(words(number + 1, 12))
    described: dict[str, Any] = {"description": description}
    if number % 40 == 19:
        urn = group(f"experiment-{number // 40:03}")
        return urn, "mlModelGroupProperties", described | {"name": name}
    features = [feature(f"table_{number % 50}", f"feature_{number - at}") for at in range(1, 8)]
    urn = table(f"{name}_{number}")
    return urn, "mlFeatureTableProperties", described | {"mlFeatures": features}
