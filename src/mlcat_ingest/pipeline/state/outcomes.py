"""The metadata tests that entities failed when they were last evaluated."""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Engine, delete, insert, select

from mlcat_ingest.pipeline.state.tables import failing
from mlcat_ingest.sql.engine import write_transaction


def save_outcomes(
    engine: Engine, recipe: str, sink: str, outcomes: Mapping[str, Sequence[str]]
) -> None:
    """Keep the tests that each entity of `outcomes` fails; an entity that fails none is dropped."""
    kept = (failing.c.recipe == recipe, failing.c.sink == sink)
    with write_transaction(engine) as connection:
        connection.execute(delete(failing).where(*kept, failing.c.urn.in_(list(outcomes))))
        rows = [
            {"recipe": recipe, "sink": sink, "urn": urn, "tests": json.dumps(list(tests))}
            for urn, tests in outcomes.items()
            if tests
        ]
        if rows:
            connection.execute(insert(failing), rows)


def failing_tests(engine: Engine, recipe: str, sink: str) -> dict[str, tuple[str, ...]]:
    """Return the tests that entities failed when they were last evaluated, by URN.

    Cost: memory for every entity that fails one.
    """
    with engine.connect() as connection:
        rows = connection.execute(
            select(failing.c.urn, failing.c.tests).where(
                failing.c.recipe == recipe, failing.c.sink == sink
            )
        )
        return {urn: tuple(json.loads(tests)) for urn, tests in rows}
