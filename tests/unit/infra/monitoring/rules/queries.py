"""Metrics that a query reads, and those of them that it takes for counters."""

import promql_parser

OF_COUNTERS = {"rate", "irate", "increase", "resets"}
"""Functions of PromQL that take a fall of the value for a restart of the counter."""
OF_GAUGES = {
    *("delta", "idelta", "deriv", "predict_linear", "avg_over_time", "min_over_time", "quantile_over_time"),
    *("stddev_over_time", "sum_over_time"),
}
"""Functions that a counter's restart, or its mere age, makes meaningless."""


def metrics_of(query):
    """Return the names of all series that a query reads."""
    return {name for name, _ in _read(promql_parser.parse(query))}


def gauges_of(query):
    """Return the names of the series that a query reads by functions for gauges."""
    return {name for name, function in _read(promql_parser.parse(query)) if function in OF_GAUGES}


def counters_of(query):
    """Return the names of the series that a query reads by functions for counters."""
    return {name for name, function in _read(promql_parser.parse(query)) if function in OF_COUNTERS}


def _read(node, *, function=""):
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, function
    if isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector.name, function
    if isinstance(node, promql_parser.Call):
        function = node.func.name
    parts = [getattr(node, part, None) for part in ("expr", "param", "lhs", "rhs")]
    for part in (*parts, *(getattr(node, "args", None) or ())):
        if part is not None:
            yield from _read(part, function=function)
