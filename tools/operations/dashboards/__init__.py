"""Draw Grafana's dashboards without Grafana: their panels' queries, asked of a Prometheus, as pages for a browser."""
