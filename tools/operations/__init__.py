"""Commands about jobs, services and clusters: status, why, logs, search-logs, dashboards, rerun and predict."""
