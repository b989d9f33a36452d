"""Assets before the mapping: which version counts, and which prompts are named."""

import pytest

from mlcat_ingest.sources.mlflow.values.assets import (
    LINKED_PROMPTS_TAG,
    Asset,
    AssetVersion,
    in_order,
    linked_prompts,
    references,
)


@pytest.mark.parametrize(
    "ordered",
    [
        ["1.9.0", "1.10.0", "2.0.0-alpha", "2.0.0-alpha.1", "2.0.0-rc.2", "2.0.0-rc.10", "2.0.0"],
        ["2.0.0-1", "2.0.0-2", "2.0.0-10", "2.0.0-a", "2.0.0"],
        ["1", "2", "10"],
        ["latest", "0.0.1", "1.0.0+a", "1.0.0+b"],
    ],
)
def test_versions_are_ordered_by_their_numbers(ordered: list[str]) -> None:
    versions = [AssetVersion(one) for one in sorted(ordered, reverse=True)]
    assert [one.version for one in in_order(versions)] == ordered


def test_an_active_version_counts_more_than_a_newer_draft() -> None:
    versions = [AssetVersion("2.0.0", "draft"), AssetVersion("1.0.0", "active")]
    assert Asset("mcp server", "a/b", versions=in_order(versions)).newest.version == "1.0.0"
    assert Asset("mcp server", "a/b").newest == AssetVersion("")


def test_of_equal_versions_the_one_that_was_made_last_counts() -> None:
    versions = [AssetVersion("1.0.0+a", created_at_ms=2), AssetVersion("1.0.0+b", created_at_ms=1)]
    assert in_order(versions)[-1].version == "1.0.0+a"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[{"name": "a", "version": "1"}, {"name": "b"}, {"name": "a"}]', {"a", "b"}),
        ('[{"version": "1"}, {"name": 3}, "a", null]', set()),
        ('{"name": "a"}', set()),
        ("[", set()),
        ("[" * 100_000, set()),
        ("", set()),
    ],
)
def test_prompts_are_named_in_a_tag(text: str, names: set[str]) -> None:
    assert linked_prompts({LINKED_PROMPTS_TAG: text}) == names
    assert linked_prompts({}) == frozenset()


@pytest.mark.parametrize(
    ("params", "tags", "found"),
    [
        ({"llm": "models:/llm/1"}, {}, ["models:/llm/1"]),
        ({"llm": " models:/b/1 , skills:/s"}, {}, ["models:/b/1", "skills:/s"]),
        ({"team": '["models:/a, b/1", "models:/b@x", 3]'}, {}, ["models:/a, b/1", "models:/b@x"]),
        ({"prompt": "ask models:/llm/1", "url": "models:"}, {}, []),
        ({"both": "models:/llm/1, gpt"}, {}, []),
        ({}, {"replaces": "models:/llm/1"}, []),
        ({}, {"mlcat.uses": "models:/llm/1, gpt"}, ["gpt", "models:/llm/1"]),
        ({"mlcat.uses": "gpt"}, {}, ["gpt"]),
        ({"n": "3", "empty": "", "json": '{"a": 1}', "deep": "[" * 100_000}, {}, []),
    ],
)
def test_an_agent_names_what_it_uses(
    params: dict[str, str], tags: dict[str, str], found: list[str]
) -> None:
    assert references(params, tags) == found
