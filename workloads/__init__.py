"""Workloads on the platform: typed training jobs and inference services."""
