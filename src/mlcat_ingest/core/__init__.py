"""Small helpers that every package may use: they know nothing of metadata, sources or catalogs."""
