"""PATCH: what the body means, and what it makes of an aspect. Pure: no tables, no clock."""
