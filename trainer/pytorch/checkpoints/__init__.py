"""Checkpoints of a run: writing, retention, verification and reading."""
