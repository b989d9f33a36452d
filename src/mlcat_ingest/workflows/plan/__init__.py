"""A plan: what a run would write, found by the run's own stages, with nothing written anywhere."""
