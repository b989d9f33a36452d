"""Definitions of features: the model that every feature reader produces, and its mapping."""
