"""The three-way merge of the values of a source with those of the catalog; pure.

`stored` is the value in the catalog, `fresh` is the value of the source in this pass. The base, the
last-applied set of a recipe, travels with the entity: entries of it that the source drops are
removed, and entries of other writers stay.
"""
