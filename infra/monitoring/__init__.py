"""Monitoring as plain manifests: Prometheus and its components, targets, rules, dashboards, logs."""

from infra.namespaces import MONITORING_NAMESPACE, NODE_MONITORING_NAMESPACE

COMPONENT = "athanor:infra:Monitoring"
"""Type of the component that holds all of it: part of the URN of every resource of it."""
NAMESPACE = MONITORING_NAMESPACE
"""Namespace of everything but what must see its node; Pod Security `restricted`."""
NODE_NAMESPACE = NODE_MONITORING_NAMESPACE
"""Namespace of the DaemonSets that mount folders of their node (node exporter, vlagent); Pod Security `privileged`."""

# Names of the parts: of their workload, their account, their Service, and the pod label app.kubernetes.io/name.
OPERATOR = "prometheus-operator"
PROMETHEUS = "prometheus"
ALERTMANAGER = "alertmanager"
KUBE_STATE_METRICS = "kube-state-metrics"
NODE_EXPORTER = "node-exporter"
GRAFANA = "grafana"
VICTORIA_LOGS = "victoria-logs"
VLAGENT = "vlagent"
METRICS_ADAPTER = "prometheus-adapter"

INSTANCE = "athanor"
"""Name of the Prometheus and Alertmanager objects; pods are called prometheus-athanor-0, alertmanager-athanor-0."""

PROMETHEUS_PORT = 9090
ALERTMANAGER_PORT = 9093
GRAFANA_PORT = 3000
VICTORIA_LOGS_PORT = 9428
VLAGENT_PORT = 9429
NODE_EXPORTER_PORT = 9100
KUBE_STATE_METRICS_PORT = 8080
"""Metrics of the cluster's objects."""
KUBE_STATE_METRICS_OWN_PORT = 8081
"""Metrics of the program itself."""
OPERATOR_PORT = 8080
METRICS_ADAPTER_PORT = 6443
WEB_PORT_NAME = "web"

KUBELET_NAMESPACE = "kube-system"
KUBELET_SERVICE = "kubelet"
"""Service that the operator keeps for the kubelets of all nodes but simulated ones: its label app.kubernetes.io/name is
`kubelet`, its port `https-metrics`."""
