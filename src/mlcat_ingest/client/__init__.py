"""The client of the catalog service; `CatalogClient` in `catalog_client.py` is its front."""
