"""Values without I/O: URNs, names, aspects, entities, proposals and their JSON."""
