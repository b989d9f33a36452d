"""Sources: what reads runs and feature definitions, a folder each."""
