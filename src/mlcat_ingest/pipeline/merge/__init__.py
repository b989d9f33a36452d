"""The three-way merge of what a source says with what the catalog holds; pure.

`stored` is what the catalog holds, `fresh` is what the source says in this pass. The base, the
last-applied set of a recipe, travels with the entity: entries of it that the source drops are
removed, and entries of other writers stay.
"""
