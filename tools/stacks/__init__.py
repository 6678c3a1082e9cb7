"""Stacks of this project: engine, settings, state, previews, and stock for their pools."""
