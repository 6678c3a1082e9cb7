"""Stacks of this project: the engine that runs them, their settings and state, previews, and stock for their pools."""
