"""A property that fails prints its example, whatever the machine; only CI repeats its examples."""

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.engine import MAX_SHRINKING_SECONDS

from support.examples import PER_CENT


def test_the_search_for_the_smallest_example_ends_before_the_limit_of_a_property(
    request: pytest.FixtureRequest,
) -> None:
    limit = request.node.get_closest_marker("timeout")
    assert limit is not None
    assert limit.args[0] > 2 * MAX_SHRINKING_SECONDS


@pytest.mark.parametrize("name", PER_CENT)
def test_each_profile_prints_what_repeats_a_failure_and_has_no_deadline(name: str) -> None:
    profile = settings.get_profile(name)
    assert profile.print_blob
    assert profile.deadline is None


def test_examples_are_the_same_in_ci_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from support import examples

    before = settings.get_current_profile_name()
    found = {}
    for in_ci in (True, False):
        monkeypatch.setenv("CI", "1") if in_ci else monkeypatch.delenv("CI", raising=False)
        examples.load_profile()
        chosen = settings.get_current_profile_name()
        found[chosen] = {name for name in PER_CENT if settings.get_profile(name).derandomize}
    monkeypatch.undo()
    examples.load_profile()
    settings.load_profile(before)
    assert found == {"ci": set(PER_CENT), "dev": {"ci"}}
