"""What is live in the catalog is what MLflow holds, over random histories of deletions."""

import tempfile

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import CatalogRequestError
from support.examples import examples
from support.fakes import FakeSink
from support.mlflow_history import REPORTED, Recipe, Server, fast_folder

PURGES = (
    *("purge_run", "purge_experiment", "purge_model", "vanish", "rename", "delete"),
    "delete_logged_model",
)

steps = st.lists(
    st.tuples(st.sampled_from((*REPORTED, *PURGES, *PURGES)), st.integers(0, 11)), max_size=6
)


def live(sink: FakeSink) -> set[str]:
    """Return the entities that are models and groups and not removed."""
    return {
        urn
        for urn, aspects in sink.stored.items()
        if not aspects.get("status", {}).get("removed")
        and urn.startswith(("urn:li:mlModel:", "urn:li:mlModelGroup:"))
    }


@settings(max_examples=examples(15))
@given(history=st.lists(st.tuples(steps, st.booleans()), min_size=1, max_size=6))
@example(history=[([("purge_experiment", 1)], False), ([], True)])
@example(history=[([("rename", 1)], False), ([("rename", 1)], False)])
@example(history=[([("rename", 1), ("purge_experiment", 1)], False)])
def test_what_is_gone_is_removed_and_nothing_else(
    history: list[tuple[list[tuple[str, int]], bool]],
) -> None:
    server = Server.in_use()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        recipe = Recipe(server, f"sqlite:///{folder}/state.db")
        for step, full in [([], True), *history]:
            for change, at in step:
                getattr(server, change)(at)
            recipe.ingest(full=full)
        recipe.ingest(full=True)
        afresh = Recipe(server)
        afresh.ingest()
        assert live(recipe.sink) == live(afresh.sink)
        recipe.sink.writes.clear()
        recipe.ingest(full=True)
        assert recipe.sink.writes == []


@settings(max_examples=examples(10))
@given(history=st.lists(steps, min_size=1, max_size=4))
def test_a_catalog_without_search_or_a_lost_state_change_nothing(
    history: list[list[tuple[str, int]]],
) -> None:
    server = Server.in_use()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        forgetful = Recipe(server)
        blind = Recipe(server, f"sqlite:///{folder}/state.db")
        blind.sink.search_error = CatalogRequestError("no search here", status=501)
        for number, step in enumerate([[], *history]):
            for change, at in step:
                getattr(server, change)(at)
            blind.ingest(full=True)
            forgetful.url = f"sqlite:///{folder}/{number}.db"
            forgetful.ingest()
        # Who is in a group cannot be found out either, so groups stay.
        more = live(blind.sink) - live(forgetful.sink)
        assert all(urn.startswith("urn:li:mlModelGroup:") for urn in more)
        assert live(forgetful.sink) <= live(blind.sink)
