"""Diagnosis of a job from the objects of a cluster: why it does not run, and when it can start. Read-only."""
