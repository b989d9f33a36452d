"""Metadata tests of what was written, and the quality gate on their results."""
