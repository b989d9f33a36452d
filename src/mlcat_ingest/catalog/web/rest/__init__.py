"""The Rest.li and OpenAPI endpoints of the catalog."""
