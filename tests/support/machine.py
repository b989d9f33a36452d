"""Marks of tests that need what not every machine has."""

from pathlib import Path

import pytest

needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this machine has no /dev/full, as macOS has none"
)
