"""The client of a catalog service over HTTP, DataHub's or the embedded catalog's."""
