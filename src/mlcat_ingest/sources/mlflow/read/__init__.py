"""Readers of an MLflow store: over REST, by MlflowClient, or from its database."""
