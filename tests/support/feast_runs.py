"""Runs that Feast itself tagged, see `tests/data/feast_runs`, and what their registry holds."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.links.index import FeatureIndex, FeatureRef, FeatureSet
from mlcat_ingest.metadata.naming import Naming

FOLDER: Final = Path(__file__).parents[1] / "data" / "feast_runs"
PROJECT: Final = "rides"
STATS: Final = ("conv_rate", "acc_rate", "avg_daily_trips")
WIDE_VIEW: Final = "driver_wide_features_of_every_kind"
WIDE: Final = tuple(f"a_feature_with_a_rather_long_name_for_a_column_{n:03d}" for n in range(200))
TABLES: Final = {
    "driver_hourly_stats": STATS,
    "driver_hourly_stats_fresh": STATS,
    WIDE_VIEW: WIDE,
    "transformed": ("conv_rate_doubled",),
}


@cache
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "runs.json").read_text())
    return found


def recorded_runs() -> list[dict[str, Any]]:
    return list(_recorded()["runs"])


def recorded(name: str) -> dict[str, Any]:
    """Return the run of this name."""
    return next(run for run in recorded_runs() if run["name"] == name)


def registry_index() -> FeatureIndex:
    """Return what `registry.db` holds, as a source puts it into its index."""
    index, naming = FeatureIndex(), Naming("feast")
    for table, features in TABLES.items():
        index.add_table(naming, PROJECT, table, features, keys=["driver_id"])
    stats = [FeatureRef("driver_hourly_stats", name) for name in STATS]
    fresh = [FeatureRef("driver_hourly_stats_fresh", name) for name in STATS]
    doubled = FeatureRef("transformed", "conv_rate_doubled")
    index.add_set(FeatureSet(PROJECT, "driver_activity_v1", (*stats[:2], doubled)))
    aliases = {"newest": "driver_hourly_stats_fresh"}
    index.add_set(FeatureSet(PROJECT, "driver_activity_v2", (*stats, *fresh), aliases))
    wide = tuple(FeatureRef(WIDE_VIEW, name) for name in WIDE)
    index.add_set(FeatureSet(PROJECT, "driver_wide", wide))
    return index


def feature_urn(table: str, feature: str) -> str:
    return f"urn:li:mlFeature:({PROJECT}.{table},{feature})"


def put_recorded_runs(client: Any, artifacts: Path) -> dict[str, str]:
    """Put the recorded runs into the store of an `MlflowClient`; return their ids by name."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Param, RunTag

    ids: dict[str, str] = {}
    places: dict[str, str] = {}
    for run in recorded_runs():
        name, experiment = run["name"], run["experiment"]
        if experiment not in places:
            places[experiment] = client.create_experiment(experiment, str(artifacts))
        run_id = ids[name] = client.create_run(places[experiment], run_name=name).info.run_id
        tags = [RunTag(*one) for one in run["tags"].items() if one[0] != "mlflow.runName"]
        params = [Param(*one) for one in run["params"].items()]
        client.log_batch(run_id, tags=tags, params=params)
        for item in run["datasets"]:
            facts = {key: item[key] for key in ("name", "digest", "source_type", "source")}
            context = [InputTag(*one) for one in item["tags"].items()]
            used = DatasetInput(Dataset(**facts, schema=item["schema"]), context)
            client.log_inputs(run_id, datasets=[used])
        client.set_terminated(run_id, "FINISHED")
    return ids
