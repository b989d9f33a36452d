"""The embedded catalog: a service of its own that speaks DataHub's protocol."""
