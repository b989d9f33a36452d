"""From merged entities to acknowledged ones: batches, retries, conflicts and refusals."""
