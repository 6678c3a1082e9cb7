"""The gateway as plain manifests: Envoy Gateway, its proxies, and the activator of services scaled to zero."""

from infra.namespaces import GATEWAY_NAMESPACE

COMPONENT = "athanor:infra:Gateway"
"""Type of the component that holds all of it."""
NAMESPACE = GATEWAY_NAMESPACE
"""Namespace of controller, proxies and activator; Pod Security `restricted`."""
CONTROLLER = "envoy-gateway"
"""Deployment, account and Service of the controller; the proxies look for the Service by this name."""
PROXY = "gateway"
"""Deployment and Service of the proxies."""
CERTIFICATES = "gateway-certificates"
"""Job and account that create what controller and proxies prove who they are with."""
ACTIVATOR = "activator"
"""The component that starts services that scaled to zero and holds their first requests."""
GATEWAY_NAME = "athanor"
"""Name of the Gateway, its class and the proxies' description."""
HTTPS_PORT = 443
ACTIVATOR_PORT = 8080
ACTIVATOR_METRICS_PORT = 8081
PROXY_METRICS_PORT = 19001
"""Fixed by Envoy Gateway."""
