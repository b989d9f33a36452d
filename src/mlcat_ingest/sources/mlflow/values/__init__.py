"""Values of the MLflow source without I/O: records, fingerprints, releases, URIs and links."""
