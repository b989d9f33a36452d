"""State: what a recipe remembers between runs. A cache: losing it costs time, never truth."""
