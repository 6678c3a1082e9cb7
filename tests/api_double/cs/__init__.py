"""Container Service (CS, 2015-12-15): ACK clusters, node pools, add-ons."""

from tests.api_double.cs import addons, autoscaling_config, cluster_logs, clusters, node_pools, tasks, versions

ROUTES = [
    *clusters.ROUTES,
    *cluster_logs.ROUTES,
    *node_pools.ROUTES,
    *addons.ROUTES,
    *autoscaling_config.ROUTES,
    *tasks.ROUTES,
    *versions.ROUTES,
]
"""Every operation of the service."""
