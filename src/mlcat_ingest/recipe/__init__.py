"""Recipes: text becomes a typed value, with the line of everything that is wrong with it."""
