"""Values of the MLflow source without I/O: records, fingerprints, URIs and links."""
