"""Checkpoints of a run: how they are written, kept, checked and read."""
