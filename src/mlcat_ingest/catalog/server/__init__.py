"""The process of the catalog: its lock, its server, and a child of a run."""
