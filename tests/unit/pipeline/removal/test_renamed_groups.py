"""What people put on a group is on the living group of its experiment, whatever came between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from mlcat_ingest.errors import AspectRejectedError, CatalogRequestError, CatalogUnavailableError
from mlcat_ingest.metadata.proposal import NO_SUCH_VERSION, Proposal
from mlcat_ingest.metadata.reserved import COPIED_TO, RENAMED_TO
from mlcat_ingest.pipeline.write.searchable import SearchResult
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.workflows.verify import Verification
from support.fakes import FakeSink, group_urn
from support.mlflow_history import Recipe, Server

TAGS, LINKS = "globalTags", "institutionalMemory"
HOME = "mlModelGroupProperties"
NEVER = {"If-Version-Match": NO_SUCH_VERSION}
OLD, NEW = map(group_urn, ("fraud", "b"))


@dataclass
class History:
    """A server with an experiment of changing names, two recipes, and people who tag."""

    folder: Path
    full: bool
    sink: FakeSink
    server: Server = field(default_factory=Server)
    tags: list[str] = field(default_factory=list)
    states: int = 0

    def __post_init__(self) -> None:
        self.server.store.runs = [Run("a" * 32, "1", start_time_ms=1)]
        self.one, self.two = self.recipe("one"), self.recipe("two")
        self.runs()

    def recipe(self, name: str) -> Recipe:
        self.states += 1
        url = f"sqlite:///{self.folder}/{self.states}.db"
        return Recipe(self.server, url, self.sink, name=name)

    def runs(self) -> None:
        self.one.ingest(full=self.full)

    def other_runs(self) -> None:
        self.two.ingest(full=self.full)

    def renamed(self, name: str) -> None:
        self.server.experiment(1, name=name, lifecycle_stage="active")

    def deleted_and_seen(self) -> None:
        self.server.delete_experiment(1)
        self.runs()

    @property
    def group(self) -> str:
        return group_urn(self.server.store.experiments[1].name)

    def tagged(self, group: str = "") -> None:
        """Let a person add a tag to a group, by default to the one that the experiment has now."""
        self.tags.append(f"urn:li:tag:{len(self.tags)}")
        self.tag(group or self.group, self.tags[-1])

    def tag(self, group: str, tag: str) -> None:
        held = self.sink.stored[group].get(TAGS, {}).get("tags", ())
        self.sink.put(group, TAGS, {"tags": [*held, {"tag": tag}]})

    @property
    def live(self) -> dict[str, list[str]]:
        """The tags of each group that is not removed."""
        return {
            urn: sorted(one["tag"] for one in aspects.get(TAGS, {}).get("tags", ()))
            for urn, aspects in self.sink.stored.items()
            if "Group" in urn and not aspects.get("status", {}).get("removed")
        }

    def check(self) -> None:
        assert self.live == {group_urn("Default"): [], self.group: self.tags}


def renamed(history: History) -> None:
    history.tagged()
    history.renamed("b")
    history.runs()


def deleted_seen_and_restored(history: History, name: str = "b") -> None:
    history.tagged()
    history.deleted_and_seen()
    history.renamed(name)
    history.runs()


def chain_of_four(history: History) -> None:
    renamed(history)
    for name in "cde":
        deleted_seen_and_restored(history, name)


def back_to_an_old_name(history: History) -> None:
    renamed(history)
    deleted_seen_and_restored(history, "fraud")
    renamed(history)


def hidden_by_a_person(history: History) -> None:
    history.tagged()
    history.sink.put(history.group, "status", {"removed": True})
    history.renamed("b")
    history.runs()


def old_state_restored(history: History) -> None:
    early, history.one = history.one, history.recipe("one")
    history.runs()
    renamed(history)
    history.tagged()
    history.deleted_and_seen()
    history.one = early
    history.renamed("c")
    history.runs()


def state_lost(history: History) -> None:
    history.tagged()
    history.deleted_and_seen()
    history.one = history.recipe("one")
    history.renamed("b")
    history.runs()


def restored_by_the_other_recipe(history: History) -> None:
    history.tagged()
    history.deleted_and_seen()
    history.renamed("b")
    history.other_runs()
    history.runs()


def renamed_and_deleted_between_runs(history: History) -> None:
    history.tagged()
    history.renamed("b")
    history.deleted_and_seen()
    history.renamed("b")
    history.runs()


WITH_STATE = (
    renamed,
    deleted_seen_and_restored,
    chain_of_four,
    back_to_an_old_name,
    hidden_by_a_person,
    old_state_restored,
)
BY_SEARCH = (state_lost, restored_by_the_other_recipe, renamed_and_deleted_between_runs)


@pytest.fixture(params=[False, True], ids=["changes", "full"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    return History(tmp_path, request.param, FakeSink(place="fake://catalog"))


@pytest.mark.parametrize("live", [*WITH_STATE, *BY_SEARCH])
def test_entries_are_on_the_living_group(history: History, live: Callable[[History], None]) -> None:
    live(history)
    history.check()
    history.one.ingest(full=True)
    history.check()


def test_the_report_counts_the_proposals_of_a_copy(history: History) -> None:
    history.tagged()
    history.renamed("b")
    history.sink.writes.clear()
    report = history.one.ingest(full=history.full)
    sent = [one for batch in history.sink.writes for one in batch if one.headers != NEVER]
    assert {(NEW, TAGS), (OLD, HOME)} <= {(one.entity_urn, one.aspect_name) for one in sent}
    assert report.proposals_sent == len(sent)
    assert report.entities["mlModelGroup"].read == 3, "each group counts once"


def test_a_group_that_only_gets_its_new_name_is_updated(history: History) -> None:
    history.tagged()
    history.deleted_and_seen()
    history.renamed("b")
    with history.one.plan(full=history.full) as plan:
        assert NEW in {one.urn for one in plan.entities()}
        assert plan.totals.actions["mlModelGroup"] == {"create": 1, "update": 1}
    counts = history.one.ingest(full=history.full).entities["mlModelGroup"]
    assert (counts.created, counts.updated, counts.removed) == (1, 1, 0)


@pytest.mark.parametrize("live", WITH_STATE)
def test_a_catalog_without_search_gets_them_by_the_state(
    history: History, live: Callable[[History], None]
) -> None:
    history.sink.search_error = CatalogRequestError("no search", status=404)
    live(history)
    # Its members cannot be listed, so the old group stays.
    assert history.live[history.group] == history.tags


def test_verify_counts_a_living_group_whose_entries_are_on_a_removed_one(history: History) -> None:
    deleted_seen_and_restored(history)
    old = history.sink.stored[OLD][HOME]
    custom = {**old["customProperties"], COPIED_TO: ""}
    history.sink.put(OLD, HOME, {**old, "customProperties": custom})
    history.sink.put(NEW, TAGS, {"tags": []})
    with history.recipe("one").plan(full=True) as plan, Verification(plan, SearchResult()) as found:
        assert (found.missing, found.stale, found.to_be_removed) == (0, 1, 0)
        assert [one.urn for one in found.differing()] == [NEW]
    history.runs()
    with history.recipe("one").plan(full=True) as plan, Verification(plan, SearchResult()) as found:
        assert found.stale == (0 if history.full else 1), "a full pass finds it"


@pytest.mark.parametrize("is_seen_in_trash", [False, True])
def test_an_experiment_that_got_the_id_of_a_deleted_one_gets_nothing_of_it(
    history: History, *, is_seen_in_trash: bool
) -> None:
    history.tagged()
    if is_seen_in_trash:
        history.deleted_and_seen()
    history.server.experiment(1, name="unrelated", lifecycle_stage="active", created_at_ms=77)
    for _ in range(2):
        history.runs()
    history.one.ingest(full=True)
    assert history.live[group_urn("unrelated")] == []
    assert OLD not in history.live
    custom = history.sink.stored[OLD][HOME]["customProperties"]
    assert RENAMED_TO not in custom, "people are led to an unrelated group"


# --- others who write at the same time ------------------------------------------------------------


def once_at(
    history: History, urn: str, aspect: str, do: Callable[[], None], *, value: str = ""
) -> None:
    """Do something just before the catalog gets the first write of an aspect with `value`."""

    def before_write(proposals: Sequence[Proposal]) -> None:
        for one in proposals:
            if (one.entity_urn, one.aspect_name) == (urn, aspect) and value in str(one.aspect):
                history.sink.before_write = lambda _: None
                do()
                return

    history.sink.before_write = before_write


@pytest.mark.parametrize(
    ("aspect", "value"), [("status", ""), (HOME, "mlcat.renamed_to")], ids=["hidden", "copied"]
)
@pytest.mark.parametrize("conditions", [True, False])
def test_what_comes_to_the_old_group_meanwhile_moves_too(
    history: History, aspect: str, value: str, *, conditions: bool
) -> None:
    history.sink.checks_versions = conditions
    for is_tagged_before in (True, False):
        meanwhile = partial(history.tagged, history.group)
        once_at(history, history.group, aspect, meanwhile, value=value)
        if is_tagged_before:
            history.tagged()
        history.renamed("b" if history.group == OLD else "c")
        history.runs()
        history.check()


def test_what_is_taken_off_the_old_group_meanwhile_does_not_come_back(history: History) -> None:
    history.tagged()
    once_at(history, OLD, "status", lambda: history.sink.put(OLD, TAGS, {"tags": []}))
    history.renamed("b")
    history.runs()
    assert history.live[NEW] == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_came_to_the_old_group_before_a_run_ended_early_moves_with_the_next_full_pass(
    history: History, *, is_shared: bool
) -> None:
    history.tagged()
    if is_shared:
        history.other_runs()
    history.renamed("b")

    def end_after_it(_: Sequence[str]) -> None:
        raise CatalogUnavailableError("ended before both groups were read again")

    def tag_meanwhile() -> None:
        history.tagged(OLD)
        history.sink.before_read = end_after_it

    once_at(history, OLD, HOME, tag_meanwhile, value=RENAMED_TO)
    assert history.one.report(full=history.full).exit_code == 1
    history.sink.before_read = lambda _: None
    history.one.ingest(full=True)
    assert history.live[NEW] == history.tags


@pytest.mark.parametrize("aspect", ["status", TAGS])
def test_a_copy_to_a_group_that_another_run_has_renamed_goes_on_to_its_new_name(
    history: History, aspect: str
) -> None:
    history.tagged()
    history.renamed("b")

    def rename_again() -> None:
        history.other_runs()
        history.renamed("c")
        history.other_runs()

    once_at(history, OLD if aspect == "status" else NEW, aspect, rename_again)
    history.runs()
    assert history.live[history.group] == history.tags
    # Whoever has a former group last removes it.
    history.one.ingest(full=True)
    history.check()


def test_a_group_that_has_its_name_again_is_not_hidden(history: History) -> None:
    history.tagged()
    history.renamed("b")

    def rename_back() -> None:
        history.renamed("fraud")
        history.other_runs()
        history.renamed("b")

    once_at(history, NEW, HOME, rename_back)
    history.runs()
    history.runs()
    history.one.ingest(full=True)
    history.two.ingest(full=True)
    history.check()


class Dying(FakeSink):
    """A catalog that is killed after it stored the copied links."""

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        refused = super().write(proposals)
        copied = [one for one in proposals if (one.entity_urn, one.aspect_name) == (NEW, LINKS)]
        if copied and copied[0].headers != NEVER:
            raise CatalogUnavailableError("killed before its index had the change")
        return refused


@pytest.mark.parametrize("is_completed_by_another_recipe", [False, True])
def test_a_copy_without_an_answer_is_written_again_by_the_next_full_pass(
    history: History, *, is_completed_by_another_recipe: bool
) -> None:
    link = {"url": "https://wiki.example.com", "description": "docs"}
    history.sink.put(OLD, LINKS, {"elements": [link]})
    history.other_runs()
    history.renamed("b")
    sink = history.one.sink
    history.one.sink = Dying(place=sink.address, stored=sink.stored, versions=sink.versions)
    assert history.one.report(full=history.full).exit_code == 1
    history.one.sink = sink
    if is_completed_by_another_recipe:
        history.two.ingest(full=True)
    sink.writes.clear()
    history.one.ingest(full=True)
    assert (NEW, LINKS) in {
        (one.entity_urn, one.aspect_name) for batch in sink.writes for one in batch
    }


def test_a_former_name_that_no_search_finds_is_removed_after_a_run_that_ended_early(
    history: History,
) -> None:
    history.tagged()
    history.renamed("b")

    def end_early(urns: Sequence[str]) -> None:
        if OLD in urns:
            raise CatalogUnavailableError("ended before the former name was removed")

    history.sink.before_read = end_early
    assert history.one.report(full=history.full).exit_code == 1
    history.sink.before_read = lambda _: None
    history.sink.not_indexed = {OLD}
    history.one.ingest(full=True)
    history.check()
