"""Measurements that the docs state: each prints a table; none is a test."""
