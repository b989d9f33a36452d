"""Feature definitions out of Feast registries, without Feast."""
