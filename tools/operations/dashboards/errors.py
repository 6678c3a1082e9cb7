"""Errors that concern the pages as a whole."""

from __future__ import annotations

from tools.errors import ExpectedError


class DashboardError(ExpectedError):
    """Queries of panels failed; the message names each."""


class PrometheusError(ExpectedError):
    """Prometheus cannot be reached, or what answers is none."""


class QueryError(ExpectedError):
    """Prometheus refuses a query, or could not finish it; the message is its own."""
