"""Catalogs as a recipe names them: `rest` and `embedded` merge and evaluate, `file` writes."""
