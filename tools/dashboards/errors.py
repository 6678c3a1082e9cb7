"""What can go wrong with the pages as a whole."""

from __future__ import annotations


class DashboardError(RuntimeError):
    """Queries of panels failed; the message names each."""


class PrometheusError(RuntimeError):
    """Prometheus cannot be reached, or what answers is none."""


class QueryError(ValueError):
    """Prometheus refuses a query, or could not finish it; the message is its own."""
