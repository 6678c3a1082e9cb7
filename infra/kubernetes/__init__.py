"""Kubernetes' own definitions, independent of this project."""
