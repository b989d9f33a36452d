"""Every aspect and record of the catalog's model as a `TypedDict`, one module a topic.

One declaration serves the type checker, the reader and `metadata.registry`. JSON names as given;
fields that are not required may be left out.
"""
