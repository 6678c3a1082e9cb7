"""Smaller and faster copies of a trained model: quantised, pruned, or both."""
