"""Values of the MLflow source without I/O: records, names of tags, releases, page links."""
