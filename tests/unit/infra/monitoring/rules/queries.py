"""Which metrics a query reads."""

import promql_parser


def metrics_of(query):
    """Return the names of all series that a query reads."""
    return set(_names(promql_parser.parse(query)))


def _names(node):
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name
    if isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector.name
    parts = [getattr(node, part, None) for part in ("expr", "param", "lhs", "rhs")]
    for part in (*parts, *(getattr(node, "args", None) or ())):
        if part is not None:
            yield from _names(part)
