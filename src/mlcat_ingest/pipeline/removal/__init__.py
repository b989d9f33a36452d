"""Removal: what the source no longer has is soft-deleted, on proof and within limits.

Entities that a source marks as removed are deferred until all of it is read. With those that a
complete pass did not list, and that the source confirms as missing, they are removed all or none.
"""
