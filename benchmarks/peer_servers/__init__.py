"""Servers that `python -m benchmarks serving` compares ours with; each module needs its own framework alone."""
