"""Metrics that a query reads, and those of them that it takes for counters."""

import promql_parser

OF_COUNTERS = {"rate", "irate", "increase", "resets"}
"""Functions of PromQL that take a fall of the value for a restart of the counter."""


def metrics_of(query):
    """Return the names of all series that a query reads."""
    return {name for name, _ in _read(promql_parser.parse(query))}


def counters_of(query):
    """Return the names of the series that a query reads by functions for counters."""
    return {name for name, as_counter in _read(promql_parser.parse(query)) if as_counter}


def _read(node, *, as_counter=False):
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, as_counter
    if isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector.name, as_counter
    if isinstance(node, promql_parser.Call):
        as_counter = node.func.name in OF_COUNTERS
    parts = [getattr(node, part, None) for part in ("expr", "param", "lhs", "rhs")]
    for part in (*parts, *(getattr(node, "args", None) or ())):
        if part is not None:
            yield from _read(part, as_counter=as_counter)
