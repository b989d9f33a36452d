"""The SageMaker Feature Store source: feature groups of one account and region."""
