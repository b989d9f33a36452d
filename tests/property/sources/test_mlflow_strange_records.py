"""One item of a real listing is spoiled: it is read or refused, and everything else arrives."""

import copy
import json
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.decode import Aliases, Refusals
from mlcat_ingest.sources.mlflow.values.joined import (
    EXPERIMENT,
    LOGGED_MODEL,
    REGISTERED,
    RUN,
    VERSION,
)
from support.fake_mlflow import FakeReader, FakeStore, a_source
from support.fakes import FakeSink, group_urn, model_urn
from support.json_mutations import mutated
from support.recipes import a_recipe

LISTINGS: Final = json.loads(
    (Path(__file__).parents[2] / "data" / "mlflow" / "listings.json").read_text()
)
"""Two objects of each kind, as MLflow 3.17 lists them."""

SECOND: Final = {
    "runs": model_urn(LISTINGS["runs"][1]["info"]["run_id"]),
    "registered_models": group_urn(f"registered:{LISTINGS['registered_models'][1]['name']}"),
    "model_versions": model_urn(f"{LISTINGS['model_versions'][1]['name']}_1"),
}


@given(st.data(), st.sampled_from(list(LISTINGS)))
def test_one_strange_record_ends_no_pass_and_hides_no_other(data: st.DataObject, name: str) -> None:
    listings: dict[str, list[Any]] = copy.deepcopy(LISTINGS)
    listings[name][0] = data.draw(mutated(listings[name][0]))
    refusals = Refusals()
    usable = refusals.usable
    registered = usable(REGISTERED, decode.registered_model, listings["registered_models"])
    aliases = Aliases(registered)
    store = FakeStore(
        usable(EXPERIMENT, decode.experiment, listings["experiments"]),
        usable(RUN, decode.run, listings["runs"]),
        registered,
        usable(VERSION, lambda one: decode.model_version(one, aliases), listings["model_versions"]),
        usable(LOGGED_MODEL, decode.logged_model, listings["models"]),
    )
    sink = FakeSink(place="fake://catalog")
    source = a_source(FakeReader({"default": store}, refusals=refusals))
    report = PipelineRun(
        [source], sink, RunOptions(a_recipe("r", evaluate={"enabled": False}))
    ).execute()
    assert report.failure is None, report.failure
    assert report.failed_records >= refusals.count
    assert SECOND.get(name, "") in {"", *sink.stored}
    decode.run_ids(listings["runs"])
