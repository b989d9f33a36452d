"""MLflow: runs become models, experiments and registered models become groups."""
