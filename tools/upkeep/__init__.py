"""Maintenance of the repository: pinned requirements, and the pages of docs/ that are generated from code."""
