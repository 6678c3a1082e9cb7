"""Grafana's dashboards without Grafana: the panels' queries, sent to a Prometheus, as pages for a browser."""
