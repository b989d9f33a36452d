"""The pages of the catalog."""
