"""Properties stay within what the search index of a DataHub server takes, whoever wrote them."""

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity, merge_entity
from mlcat_ingest.pipeline.merge.limits import weight_of
from mlcat_ingest.sources.mlflow.mapping.text import cut
from mlcat_ingest.sources.mlflow.values.joined import LIMITS
from support.fakes import model_urn
from support.merging import HOME, RULES

URN = model_urn("r1")
TERM_BYTES = 32_766


def properties(first: int, last: int, name: str = "k") -> dict[str, str]:
    return {f"{name}{n:04}": "v" for n in range(first, last)}


def merged(fresh: Aspect, before: Aspect | None = None) -> MergedEntity:
    stored = None if before is None else {HOME: StoredAspect(before)}
    return merge_entity(Entity(URN, {HOME: fresh}), stored, RULES)


def written(one: MergedEntity) -> Aspect:
    (proposal,) = one.proposals
    return proposal.aspect


def test_custom_properties_stay_within_what_is_searched() -> None:
    fresh = {"customProperties": {"mlcat.source": "s", **properties(0, 1_200)}}
    first = merged(fresh)
    custom = written(first)["customProperties"]
    assert len(custom) == 1_000
    assert {"mlcat.source", "mlcat.applied.prod", "k0000", "k0997"} <= custom.keys()
    assert [(one.kind, one.detail) for one in first.notes] == [
        ("properties_left_out", "202 of 1,201 properties")
    ]
    assert merged(fresh, written(first)).proposals == ()


def test_as_many_as_fit_are_all_written() -> None:
    fresh = {"customProperties": {"mlcat.source": "s", **properties(0, 998)}}
    first = merged(fresh)
    assert len(written(first)["customProperties"]) == 1_000
    assert first.notes == ()
    assert merged(fresh, written(first)).proposals == ()


def test_properties_of_others_count_and_stay() -> None:
    theirs = properties(0, 300, "theirs")
    fresh = {"customProperties": {"mlcat.source": "s", **properties(0, 900)}}
    first = merged(fresh, {"customProperties": theirs})
    custom = written(first)["customProperties"]
    assert len(custom) == 1_000
    assert theirs.keys() <= custom.keys()
    assert merged(fresh, written(first)).proposals == ()
    # Where others take theirs away, ours come.
    fewer = {key: value for key, value in custom.items() if not key.startswith("theirs")}
    again = merged(fresh, {"customProperties": fewer})
    assert len(written(again)["customProperties"]) == 902


def test_more_of_others_than_are_searched_stay_all() -> None:
    theirs = properties(0, 1_100, "theirs")
    custom = written(merged({"customProperties": properties(0, 5)}, {"customProperties": theirs}))[
        "customProperties"
    ]
    assert theirs.keys() <= custom.keys()
    assert custom.keys() - theirs.keys() == {"mlcat.applied.prod"}


def test_of_one_too_many_the_last_entry_is_left_out() -> None:
    fresh = {"customProperties": {**properties(0, 999), "mlcat.source": "s"}}
    custom = written(merged(fresh))["customProperties"]
    assert custom.keys() == {*properties(0, 998), "mlcat.source", "mlcat.applied.prod"}


def test_where_nothing_of_ours_can_be_left_out_nothing_is_noted() -> None:
    theirs = {"customProperties": properties(0, 1_100, "theirs")}
    assert merged({"customProperties": {"mlcat.source": "s"}}, theirs).notes == ()


def test_the_base_lacks_what_was_left_out() -> None:
    theirs = {"customProperties": properties(0, 1_100, "theirs")}
    custom = written(merged({"customProperties": {"k": "v"}}, theirs))["customProperties"]
    assert custom["mlcat.applied.prod"] == "2:"


def test_the_weight_of_an_entity_is_the_number_of_its_entries() -> None:
    aspect = {"hyperParams": [1, 2], "customProperties": {"a": "b"}, "name": "none"}
    assert weight_of(Entity(URN, {HOME: aspect, "globalTags": {"tags": [1]}})) == 3
    assert weight_of(Entity(URN, {"globalTags": {"tags": [1]}})) == 0
    assert weight_of(Entity("urn:li:tag:a", {"tagProperties": {"name": "a"}})) == 0


def test_a_description_is_cut_to_the_bytes_of_one_term() -> None:
    text = "é" * 20_000
    first = merged({"description": text})
    kept = written(first)["description"]
    assert TERM_BYTES - 4 < len(kept.encode()) <= TERM_BYTES
    assert kept.endswith("é… [truncated, 20000 characters]")
    assert [one.kind for one in first.notes] == ["truncated"]
    assert merged({"description": text}, written(first)).proposals == ()


def test_a_description_of_as_many_bytes_is_whole() -> None:
    text = "x" * TERM_BYTES
    first = merged({"description": text})
    assert written(first)["description"] == text
    assert first.notes == ()


def test_any_value_from_mlflow_is_one_term() -> None:
    assert len(cut("🚀" * 100_000, LIMITS.value_chars).encode()) <= TERM_BYTES
