"""What a catalog is (`base.py`), and the client of the service, `CatalogClient`."""
