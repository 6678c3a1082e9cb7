"""The data sets that can be trained on: one file for each, and a registry."""
