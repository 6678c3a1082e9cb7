"""Queries with Grafana's variables filled in."""

from __future__ import annotations

import promql_parser
import pytest

from infra.monitoring.dashboards.queries import EXAMPLE_VALUES, filled, queries


def test_every_way_to_write_a_variable_is_filled_in():
    values = {"namespace": "athanor", "__range": "1h"}
    assert filled('up{a="$namespace", b="${namespace}", c="${namespace:regex}"}[$__range]', values) == (
        'up{a="athanor", b="athanor", c="athanor"}[1h]'
    )


def test_a_value_stays_a_value():
    """A workload's name comes from anyone who may create pods."""
    expr = filled('up{workload="$workload"}', {"workload": 'a"} or vector(1) #\\'})
    selector = promql_parser.parse(expr)
    assert isinstance(selector, promql_parser.VectorSelector)
    assert [matcher.value for matcher in selector.matchers.matchers] == ['a"} or vector(1) #\\']


def test_an_unknown_variable_is_an_error():
    with pytest.raises(KeyError, match="workload"):
        filled('up{workload="$workload"}', {})


def test_all_are_there_and_none_has_a_variable_left():
    all_queries = queries(EXAMPLE_VALUES)
    assert len(all_queries) > 150
    assert not [query for query in all_queries if "$" in query.expr]
    assert {query.dashboard for query in all_queries} >= {"athanor-job", "athanor-cost"}
