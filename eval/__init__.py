"""Held-out evaluation sets of the shipped model, and the command that prints its score table."""
