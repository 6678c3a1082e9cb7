"""The networks that can be trained: one file for each, and a registry."""
