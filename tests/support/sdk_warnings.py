import pytest

SDK_WARNINGS = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]
"""Marks of tests in which DataHub's SDK warns of what is its own."""
