"""Servers and helpers for the tests of whoever writes to a metadata catalog."""
