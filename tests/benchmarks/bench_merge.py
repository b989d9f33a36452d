"""What one run costs the connector's CPU on its way from record to wire, without any I/O.

    python tests/benchmarks/bench_merge.py --runs 2000

Prints microseconds a run (20 params, 20 metrics, a handful of tags): the best of several rounds,
since a busy machine only ever adds.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from mlcat_ingest.client.base import StoredAspect, StoredEntity
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import Metric
from support.mlflow_records import a_run, a_scope, an_experiment

RULES = MergeRules("bench")
ROUNDS = 7


def records(count: int) -> list[JoinedRun]:
    """Return runs that differ as real ones do: ids, values and times, not names."""
    scope, experiment = a_scope(), an_experiment()
    return [
        JoinedRun(
            scope,
            a_run(
                run_id=f"{n:032x}",
                name=f"run-{n}",
                user_id="ann",
                status="FINISHED",
                start_time_ms=1_700_000_000_000 + n,
                end_time_ms=1_700_000_100_000 + n,
                artifact_uri=f"s3://bucket/{n}",
                params={f"param_{i}": str(i * n) for i in range(20)},
                metrics=tuple(
                    Metric(f"metric_{i}", i * n / 7, 1_700_000_000_000 + n, 3) for i in range(20)
                ),
                tags={
                    "mlflow.source.name": "train.py",
                    "mlflow.user": "ann",
                    "mlflow.source.git.commit": "a" * 40,
                    **{f"tag_{i}": "x" for i in range(4)},
                },
            ),
            experiment,
        )
        for n in range(count)
    ]


def edited(record: JoinedRun) -> JoinedRun:
    """Return the record with one tag more, as after a late edit."""
    return replace(record, run=replace(record.run, tags={**record.run.tags, "late": "edit"}))


def entities(of: Sequence[JoinedRun]) -> list[Entity]:
    """Return the entities of all records."""
    return [entity for record in of for entity in map_record(record)]


def best_us(count: int, work: Callable[[], object]) -> float:
    """Return the microseconds of CPU an item, in the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best / count * 1e6


def merged(fresh: Sequence[Entity], stored: Sequence[StoredEntity | None]) -> None:
    """Merge every entity with what is stored of it."""
    for entity, held in zip(fresh, stored, strict=True):
        merge_entity(entity, held, RULES)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=2_000)
    count = parser.parse_args().runs
    runs = records(count)
    fresh = entities(runs)
    nothing: list[StoredEntity | None] = [None] * len(fresh)
    first = [merge_entity(entity, None, RULES) for entity in fresh]
    stored = [
        {one.aspect_name: StoredAspect(loads(dumps(one.aspect)), "1") for one in entity.proposals}
        for entity in first
    ]
    late = entities([edited(record) for record in runs])
    wire = [proposal for entity in first for proposal in entity.proposals]
    gc.collect()
    gc.freeze()
    rows = {
        "map": lambda: entities(runs),
        "merge, new to the catalog": lambda: merged(fresh, nothing),
        "merge, unchanged": lambda: merged(fresh, stored),
        "merge, one tag more": lambda: merged(late, stored),
        "proposals to JSON": lambda: [dumps(proposal.wire()) for proposal in wire],
    }
    for name, work in rows.items():
        print(f"{name:28}{best_us(count, work):8.1f} µs")


if __name__ == "__main__":
    main()
