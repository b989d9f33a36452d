"""The aspects of the catalog's model that this package names, one module a topic.

A declaration adds to DataHub's own model what `metadata.registry` and its readers have to know.
"""
